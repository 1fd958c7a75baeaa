"""Creates and deletes servers with a port each, from threads of a process of its own.

    python -m bench.pairs URL TOKEN SECONDS THREADS FLAVOR IMAGE NETWORK

Prints one line of JSON: pairs, seconds, and how long creates and deletes took.
"""

from __future__ import annotations

import json
import statistics
import sys
import threading
import time

from bench.cloud import Client

#: Seconds between two looks at a server.
POLL = 0.01


def one(client: Client, flavor: str, image: str, network: str, times: dict[str, list[float]]) -> None:
    """A server from POST to ACTIVE, and from DELETE to 404."""
    body = {
        "server": {"name": "bench", "flavorRef": flavor, "imageRef": image, "networks": [{"uuid": network}]}
    }
    begun = time.perf_counter()
    status, answer = client.call("POST", "/compute/v2.1/servers", body)
    if status != 202:
        raise RuntimeError(f"POST /servers: {status} {answer.decode()[:300]}")
    id = json.loads(answer)["server"]["id"]
    while True:
        server = client.get(f"/compute/v2.1/servers/{id}")["server"]
        if server["status"] != "BUILD":
            break
        time.sleep(POLL)
    if server["status"] != "ACTIVE":
        raise RuntimeError(f"the server is {server['status']}: {server.get('fault')}")
    times["create"].append(time.perf_counter() - begun)
    begun = time.perf_counter()
    status, answer = client.call("DELETE", f"/compute/v2.1/servers/{id}")
    if status != 204:
        raise RuntimeError(f"DELETE: {status} {answer.decode()[:300]}")
    while client.call("GET", f"/compute/v2.1/servers/{id}")[0] != 404:
        time.sleep(POLL)
    times["delete"].append(time.perf_counter() - begun)


def main() -> None:
    url, token, seconds, threads, flavor, image, network = sys.argv[1:]
    until = time.perf_counter() + float(seconds)
    times: dict[str, list[float]] = {"create": [], "delete": []}
    errors: list[str] = []

    def work() -> None:
        client = Client(url, token)
        try:
            while time.perf_counter() < until:
                one(client, flavor, image, network, times)
        except Exception as error:
            errors.append(str(error))

    begun = time.perf_counter()
    workers = [threading.Thread(target=work) for _ in range(int(threads))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if errors:
        raise SystemExit(errors[0])
    took = time.perf_counter() - begun
    found = {"pairs": len(times["delete"]), "seconds": took}
    for name, values in times.items():
        ordered = sorted(values)
        found[f"{name}_ms"] = statistics.median(ordered) * 1000
        found[f"{name}_p99_ms"] = ordered[int(len(ordered) * 0.99)] * 1000
    print(json.dumps(found))


if __name__ == "__main__":
    main()
