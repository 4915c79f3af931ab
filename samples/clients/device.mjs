// A device that sends its readings to a service. Each is in once, whatever breaks.
//
//     node device.mjs http://localhost:8123/streams/readings attic < readings
//
// readings has a line for each reading: its number, an ISO time, a temperature.
import { createInterface } from "node:readline";

const BATCH = 100, LONGEST_PAUSE = 60;
const [url, device] = process.argv.slice(2);
const headers = { "Content-Type": "application/json", "Source": device };
if (process.env.TOKEN) headers["Authorization"] = `Bearer ${process.env.TOKEN}`;

// Send rows until the service has taken them; return its receipt.
async function send(rows) {
    for (let pause = 0.5; ; pause = Math.min(2 * pause, LONGEST_PAUSE)) {
        let wait = pause;
        try {
            const body = JSON.stringify(rows), signal = AbortSignal.timeout(40_000);
            const answer = await fetch(url, { method: "POST", headers, body, signal });
            if (answer.ok) return await answer.json();
            if (![408, 429, 503].includes(answer.status)) {
                console.error(answer.status, await answer.text());
                process.exit(1);
            }
            wait = Number(answer.headers.get("Retry-After") ?? pause);
        } catch {
            // no answer: the rows may have been taken, and their numbers tell
        }
        await new Promise((resolve) => setTimeout(resolve, 1000 * wait));
    }
}

let rows = [];
for await (const line of createInterface({ input: process.stdin })) {
    const [seq, time, temp] = line.split(" ");
    rows.push({ device, seq: Number(seq), time, temp: Number(temp) });
    if (rows.length === BATCH) console.log(JSON.stringify(await send(rows.splice(0))));
}
if (rows.length) console.log(JSON.stringify(await send(rows)));
