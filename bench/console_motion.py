"""What the flow page of the console costs a browser: the share of its main thread, with motion and without.

`python -m bench.console_motion` starts a broker with `--roads` queues, each with a publisher and a consumer. A browser
without a GPU shows the flow page, in turn as it is and with the wish for reduced motion, under which streaks stand
still. The difference is what motion costs. The goal is less than 3 % of the main thread. It needs Chromium.
"""

import argparse
import multiprocessing
import shutil
import statistics
import threading
import time

from playwright.sync_api import Browser, sync_playwright

from bench.brokers import COMPILED, INTERPRETED
from bench.console import running
from penstock.client.engine.messages import Message
from penstock.sync import connect

RATE = 20
"""Messages a second on each road."""
SETTLED_S = 8.0
"""Seconds until the page has its first maps."""
OPTIONS = ["--headless", "--no-sandbox", "--disable-gpu"]


def flow(url: str, roads: int) -> None:
    """Publish to each queue, and consume from it, for ever; this is a process of its own."""
    queues = [f"road-{at}" for at in range(roads)]
    threads = [threading.Thread(target=part, args=(url, queue)) for queue in queues for part in (_send, _take)]
    for thread in threads:
        thread.start()


def _send(url: str, queue: str) -> None:
    with connect(url, protocol="amqp091") as connection:
        publisher = connection.publisher(durable=False)
        while True:
            publisher.publish(Message(b"x", routing_key=queue))
            time.sleep(1 / RATE)


def _take(url: str, queue: str) -> None:
    with connect(url, protocol="amqp091") as connection, connection.receiver(queue) as receiver:
        while True:
            message = receiver.receive(3600.0)
            if message is not None:
                message.accept()


def busy_percent(browser: Browser, port: int, motion: str, seconds: float) -> float:
    """Return the share of the main thread that the flow page takes."""
    page = browser.new_page(viewport={"width": 1280, "height": 800}, reduced_motion=motion)  # type: ignore[arg-type]
    page.goto(f"http://127.0.0.1:{port}/")
    page.get_by_label("User").fill("guest")
    page.get_by_label("Password").fill("guest")
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("navigation", name="Pages").first.wait_for()
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})  # Processor time, whatever else runs.
    time.sleep(SETTLED_S)

    def tasks_s() -> float:
        metrics = session.send("Performance.getMetrics")["metrics"]
        return next(float(each["value"]) for each in metrics if each["name"] == "TaskDuration")

    used, begun = tasks_s(), time.monotonic()
    time.sleep(seconds)
    percent = 100 * (tasks_s() - used) / (time.monotonic() - begun)
    page.close()
    return percent


def main() -> None:
    """Start a broker and clients, and measure the page of each kind in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--roads", type=int, default=14)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--interpreted", action="store_true")
    options = parser.parse_args()
    found: dict[str, list[float]] = {"no-preference": [], "reduce": []}
    with running(INTERPRETED if options.interpreted else COMPILED, 0) as broker, sync_playwright() as engine:
        with connect(broker.url, protocol="amqp091") as connection:
            for at in range(options.roads):
                connection.declare_queue(f"road-{at}", durable=False)
        clients = multiprocessing.get_context("spawn").Process(
            target=flow, args=(broker.url, options.roads), daemon=True
        )
        clients.start()
        browser = engine.chromium.launch(executable_path=shutil.which("chromium"), args=OPTIONS)
        for _ in range(options.rounds):
            for motion, percents in found.items():
                percents.append(busy_percent(browser, broker.port, motion, options.seconds))
        browser.close()
        clients.kill()
    moving, still = (statistics.median(each) for each in found.values())
    print(f"{options.roads} roads, {options.rounds} x {options.seconds:g} s, of the browser's main thread:")
    print(f"with motion    {moving:5.2f} %  ({' '.join(f'{each:.2f}' for each in found['no-preference'])})")
    print(f"without        {still:5.2f} %  ({' '.join(f'{each:.2f}' for each in found['reduce'])})")
    print(f"motion alone   {moving - still:5.2f} %")


if __name__ == "__main__":
    main()
