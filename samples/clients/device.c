/* A device that sends its readings to a service. Each is in once, whatever breaks.
 *
 *     cc -o device device.c -lcurl
 *     ./device http://localhost:8123/streams/readings attic < readings
 *
 * readings has a line for each reading: its number, an ISO time, a temperature.
 */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LONGEST_PAUSE 60

/* Send one row until the service has taken it; its receipt goes to standard output. */
static void send_row(CURL *curl, const char *row)
{
    unsigned pause = 1;
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, row);
    for (;;) {
        long status = 0;
        curl_off_t wait = 0;
        if (curl_easy_perform(curl) == CURLE_OK) {
            curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
            putchar('\n');
            if (status == 200)
                return;
            if (status != 408 && status != 429 && status != 503)
                exit(1);
            curl_easy_getinfo(curl, CURLINFO_RETRY_AFTER, &wait);
        } /* else no answer: the row may have been taken, and its number tells */
        sleep(wait > 0 ? (unsigned)wait : pause);
        pause = 2 * pause < LONGEST_PAUSE ? 2 * pause : LONGEST_PAUSE;
    }
}

int main(int count, char **arguments)
{
    char line[256], row[512], header[512];
    if (count != 3)
        return 2;
    curl_global_init(CURL_GLOBAL_DEFAULT);
    CURL *curl = curl_easy_init();
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
    snprintf(header, sizeof header, "Source: %s", arguments[2]);
    headers = curl_slist_append(headers, header);
    if (getenv("TOKEN")) {
        snprintf(header, sizeof header, "Authorization: Bearer %s", getenv("TOKEN"));
        headers = curl_slist_append(headers, header);
    }
    curl_easy_setopt(curl, CURLOPT_URL, arguments[1]);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, 40L);
    while (fgets(line, sizeof line, stdin)) {
        char seq[32], moment[64], temp[32];
        if (sscanf(line, "%31s %63s %31s", seq, moment, temp) != 3)
            continue;
        snprintf(row, sizeof row,
                 "{\"device\": \"%s\", \"seq\": %s, \"time\": \"%s\", \"temp\": %s}",
                 arguments[2], seq, moment, temp);
        send_row(curl, row);
    }
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    return 0;
}
