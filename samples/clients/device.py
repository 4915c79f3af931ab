"""A device that sends its readings to a service. Each is in once, whatever breaks.

    python device.py http://localhost:8123/streams/readings attic < readings

``readings`` has a line for each reading: its number, an ISO time, a temperature.
"""

import json
import os
import sys
import time
import urllib.error
import urllib.request

BATCH, LONGEST_PAUSE = 100, 60.0


def send(url: str, source: str, rows: list[dict[str, object]]) -> dict[str, object]:
    """Send rows until the service has taken them; return its receipt."""
    headers = {"Content-Type": "application/json", "Source": source}
    if token := os.environ.get("TOKEN"):
        headers["Authorization"] = f"Bearer {token}"
    request = urllib.request.Request(url, json.dumps(rows).encode(), headers)
    pause = 0.5
    while True:
        wait = pause
        try:
            with urllib.request.urlopen(request, timeout=40) as answer:
                return dict(json.load(answer))
        except urllib.error.HTTPError as error:
            if error.code not in (408, 429, 503):
                raise SystemExit(f"{error.code}: {error.read().decode()}") from None
            wait = float(error.headers.get("Retry-After", pause))
        except OSError:
            pass  # no answer: the rows may have been taken, and their numbers tell
        time.sleep(wait)
        pause = min(2 * pause, LONGEST_PAUSE)


def main() -> None:
    """Send what comes on standard input."""
    url, device = sys.argv[1:]
    rows: list[dict[str, object]] = []
    for line in sys.stdin:
        seq, moment, temp = line.split()
        rows.append({"device": device, "seq": int(seq), "time": moment, "temp": float(temp)})
        if len(rows) == BATCH:
            print(json.dumps(send(url, device, rows)), flush=True)
            rows = []
    if rows:
        print(json.dumps(send(url, device, rows)), flush=True)


if __name__ == "__main__":
    main()
