"""The pages in a real browser, with what a real run left in the database."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest
from real_run import Coordinator

from tunebook.cache.access.tokens import Role
from tunebook.cache.boards.board_reports import BoardReport
from tunebook.cache.queue.submissions import BudgetLimits, JobRequest

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

pytestmark = pytest.mark.slow

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
JOBS_MS, BOARDS_MS, RATES_MS = 5_000, 10_000, 60_000
NOT_LOADED = "Failed to load resource"
PATIENCE_MS = 60_000
ATTACK = "</code><img src=x onerror=window.attacked=1><script>window.attacked=1</script>"


@dataclass
class Watched:
    """A page, with everything that went wrong on it and everything that it asked for."""

    page: Any
    origin: str
    complaints: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def watch(self) -> None:
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", self._asked)
        # Seen by the page itself: not every violation is a line of the console.
        self.page.add_init_script(
            "addEventListener('securitypolicyviolation', (event) => "
            "console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`))"
        )

    def _heard(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _asked(self, request: Any) -> None:
        place = urlsplit(request.url)
        if place.scheme != "data" and f"{place.scheme}://{place.netloc}" != self.origin:
            self.foreign.append(request.url)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    found = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if found is None:
        pytest.skip("no Chromium is installed (as root: apt-get install chromium)")
    with playwright.sync_playwright() as driver:
        # Its sandbox refuses to be run by root.
        options = ["--no-sandbox", "--disable-gpu"]
        with driver.chromium.launch(executable_path=found, args=options) as browser:
            yield browser


@pytest.fixture
def expected() -> list[str]:
    """What a browser may complain of in this test."""
    return []


@pytest.fixture
def visit(
    browser: Any, coordinator: Coordinator, expected: list[str]
) -> Iterator[Callable[..., Watched]]:
    """Opens the first page in a browser of its own, not signed in; at the end of the test nothing
    may have gone wrong there, and no other host been asked."""
    opened: list[tuple[Any, Watched]] = []

    def make(**options: Any) -> Watched:
        context = browser.new_context(**options)
        context.set_default_timeout(PATIENCE_MS)
        watched = Watched(context.new_page(), coordinator.url)
        watched.watch()
        opened.append((context, watched))
        watched.page.goto(coordinator.url)
        return watched

    yield make
    for context, watched in opened:
        context.close()
        assert [one for one in watched.complaints if one not in expected] == []
        assert watched.foreign == []


@pytest.fixture
def sign_in(visit: Callable[..., Watched], coordinator: Coordinator) -> Callable[..., Any]:
    """Opens the first page in a browser of its own, and signs in as a user does."""

    def make(secret: str = coordinator.secret, **options: Any) -> Any:
        page = visit(**options).page
        page.get_by_label("Access token").fill(secret)
        page.keyboard.press("Enter")
        page.wait_for_selector("h1:has-text('Hit rate')")
        # Its scripts run after what they find.
        page.wait_for_load_state()
        return page

    return make


def said(page: Any) -> Any:
    """What the page says of a click."""
    return playwright.expect(page.locator("#said"))


def open_boards(page: Any) -> None:
    page.get_by_role("link", name="Boards").click()
    page.wait_for_selector("h1:has-text('Boards')")
    page.wait_for_load_state()


def test_a_user_signs_in_sees_the_rates_and_signs_out(
    sign_in: Callable[..., Any], coordinator: Coordinator
) -> None:
    page = sign_in()
    table = page.get_by_role("table", name="Hit rate by target and pipeline")
    for label in coordinator.labels:
        assert table.get_by_role("rowheader", name=label).first.is_visible()
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/sign-in")
    page.goto(coordinator.url)
    assert page.url.endswith("/sign-in")
    page.go_back()
    assert not page.get_by_role("table").count()


def test_no_script_can_read_the_cookie(sign_in: Callable[..., Any]) -> None:
    page = sign_in()
    assert page.evaluate("document.cookie") == ""
    (cookie,) = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")


def test_a_revoked_token_sends_an_open_page_back_to_sign_in(
    sign_in: Callable[..., Any], coordinator: Coordinator, expected: list[str]
) -> None:
    made = coordinator.store.tokens.create("leaving", Role.READ)
    page = sign_in(made.secret)
    page.clock.install()
    page.reload()
    # Browsers say so of every such answer.
    expected.append(
        "Failed to load resource: the server responded with a status of 401 (Unauthorized)"
    )
    coordinator.store.tokens.revoke(made.token.id)
    page.clock.run_for(JOBS_MS)
    page.wait_for_url("**/sign-in")


def test_the_chart_is_drawn_from_the_table_of_its_numbers(sign_in: Callable[..., Any]) -> None:
    page = sign_in()
    canvas = page.locator(".chart canvas")
    assert canvas.is_visible()
    drawn = canvas.evaluate(
        """(canvas) => {
            const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
            const colours = new Set();
            for (let i = 0; i < data.length; i += 4) {
                if (data[i + 3] === 255) colours.add(`${data[i]},${data[i + 1]},${data[i + 2]}`);
            }
            return [...colours];
        }"""
    )
    for index in range(page.locator(".legend li").count()):
        line = page.locator(".legend line").nth(index)
        stroke = line.evaluate("(line) => getComputedStyle(line).stroke")
        assert ",".join(re.findall(r"\d+", stroke)) in drawn
    page.get_by_text("The numbers of the chart").click()
    assert page.get_by_role("table", name="Hit rate over time").is_visible()


def test_the_legend_tells_the_rates_under_the_pointer(sign_in: Callable[..., Any]) -> None:
    page = sign_in()
    chart = page.locator(".chart .u-over")
    box = chart.bounding_box()
    page.mouse.move(box["x"] + box["width"] - 2, box["y"] + box["height"] / 2)
    assert page.locator(".chart .u-cursor-x").count() == 1
    assert re.fullmatch(r"[\d.]+ %", page.locator(".legend output").first.inner_text())


def test_a_click_copies_the_mending_command(
    sign_in: Callable[..., Any], coordinator: Coordinator
) -> None:
    page = sign_in(permissions=["clipboard-read", "clipboard-write"])
    cause = page.locator(".cause").first
    command = cause.locator(".command code").inner_text()
    assert command.startswith("tunebook ")
    cause.get_by_role("button", name="Copy").click()
    said(page).to_have_text("Copied the command", timeout=PATIENCE_MS)
    assert page.evaluate("navigator.clipboard.readText()") == command


def test_a_filter_changes_what_is_shown_and_the_address(sign_in: Callable[..., Any]) -> None:
    page = sign_in()
    assert not page.get_by_role("button", name="Show").is_visible()
    page.get_by_label("Time", exact=True).select_option("7d")
    page.wait_for_url("**/?window=7d*")
    page.wait_for_selector(".figures dt:has-text('7 days')")
    page.locator(".chart canvas").wait_for()
    assert page.locator("th[aria-sort]").inner_text() == "7 days"
    page.get_by_role("button", name="Copy").first.wait_for()


def test_the_page_works_by_keyboard_alone(sign_in: Callable[..., Any]) -> None:
    page = sign_in(permissions=["clipboard-read", "clipboard-write"])
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.tagName"))
        if page.evaluate("document.activeElement.matches('button[data-copies]')"):
            break
    page.keyboard.press("Enter")
    said(page).to_have_text("Copied the command", timeout=PATIENCE_MS)
    assert {"A", "BUTTON", "SELECT", "SUMMARY"} <= reached


def test_the_page_is_read_without_scripts(
    sign_in: Callable[..., Any], coordinator: Coordinator
) -> None:
    page = sign_in(java_script_enabled=False)
    for label in coordinator.labels:
        assert page.get_by_role("rowheader", name=label).first.is_visible()
    assert page.locator(".cause .command code").first.is_visible()
    assert not page.get_by_role("button", name="Copy").count()
    page.get_by_label("Time", exact=True).select_option("30d")
    page.get_by_role("button", name="Show").click()
    page.wait_for_selector("th[aria-sort]:has-text('30 days')")
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/sign-in")


@pytest.fixture
def boards(coordinator: Coordinator) -> Iterator[None]:
    """A board that is there, and one that is not, with a reason."""
    store = coordinator.store
    store.boards.report("rpi4b", "pi-1", BoardReport(cpu_model="Cortex-A72", registered=True))
    store.boards.report("rpi4b", "pi-2", BoardReport(fault=ATTACK, temperature_c=50.0))
    yield


@pytest.mark.usefixtures("boards")
@pytest.mark.parametrize("width", [360, 820, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_is_wider_than_its_window(
    sign_in: Callable[..., Any], width: int, scheme: str
) -> None:
    page = sign_in(viewport={"width": width, "height": 800}, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    open_boards(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.usefixtures("boards")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_told_from_its_ground(sign_in: Callable[..., Any], scheme: str) -> None:
    """The contrast that the Web Content Accessibility Guidelines ask for: 4.5 to 1."""
    page = sign_in(color_scheme=scheme)
    assert page.evaluate(CONTRASTS) == []
    open_boards(page)
    assert page.evaluate(CONTRASTS) == []


@pytest.mark.usefixtures("boards")
def test_boards_move_without_a_reload(
    sign_in: Callable[..., Any], coordinator: Coordinator
) -> None:
    page = sign_in()
    page.clock.install()
    # Only now: one that says nothing for half a minute is silent.
    coordinator.store.boards.report("rpi4b", "pi-1", BoardReport(registered=True))
    open_boards(page)
    row = page.get_by_role("row", name="pi-1")
    row.get_by_text("there", exact=True).wait_for()
    # What somebody holds stays as it is.
    page.evaluate("document.activeElement.blur()")
    coordinator.store.boards.report("rpi4b", "pi-1", BoardReport(registered=True, serving=True))
    page.clock.run_for(BOARDS_MS)
    row.get_by_text("serving", exact=True).wait_for()
    assert page.evaluate("window.attacked") is None


CONTRASTS = """() => {
    const read = (text) => text.match(/[\\d.]+/g).map(Number);
    const light = ([r, g, b]) => [r, g, b].map((one) => one / 255)
        .map((one) => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4)
        .reduce((sum, one, index) => sum + one * [0.2126, 0.7152, 0.0722][index], 0);
    const ground = (element) => {
        for (let one = element; one; one = one.parentElement) {
            const colour = read(getComputedStyle(one).backgroundColor);
            if (colour.length === 3 || colour[3] === 1) return colour;
        }
        return [255, 255, 255];
    };
    const weak = [];
    for (const element of document.querySelectorAll('body *')) {
        const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
        if (!own || !element.checkVisibility()) continue;
        const pair = [light(read(getComputedStyle(element).color)), light(ground(element))];
        const ratio = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
        if (ratio < 4.5) weak.push(`${element.tagName}.${element.className}: ${ratio.toFixed(2)}`);
    }
    return weak;
}"""


@pytest.fixture
def sign_in_at_noon(sign_in: Callable[..., Any]) -> Callable[[], Any]:
    """Opens the page with a clock that the test moves: `page.clock.run_for(milliseconds)`."""

    def make() -> Any:
        page = sign_in()
        page.clock.install()
        page.reload()
        return page

    return make


def test_jobs_move_without_a_reload(
    sign_in_at_noon: Callable[[], Any], coordinator: Coordinator
) -> None:
    page = sign_in_at_noon()
    request = JobRequest("1" * 64, "", coordinator.target, "local", name="camera at night")
    made = coordinator.store.queue.submit(request, BudgetLimits(trials=10))
    page.clock.run_for(JOBS_MS)
    page.wait_for_selector("#jobs :text('camera at night')")
    coordinator.store.queue.cancel(made.job_id)
    page.clock.run_for(JOBS_MS)
    page.wait_for_selector("#jobs :text('camera at night')", state="detached")


def test_rates_are_renewed_unless_somebody_reads_what_they_opened(
    sign_in_at_noon: Callable[[], Any], coordinator: Coordinator
) -> None:
    page = sign_in_at_noon()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(urlsplit(request.url).path))
    page.get_by_text("The numbers of the chart").click()
    page.clock.run_for(RATES_MS)
    # What was asked before this is seen has been seen too.
    request = JobRequest("3" * 64, "", coordinator.target, "local", name="a mark")
    made = coordinator.store.queue.submit(request, BudgetLimits(trials=10))
    page.clock.run_for(JOBS_MS)
    page.wait_for_selector("#jobs :text('a mark')")
    coordinator.store.queue.cancel(made.job_id)
    assert "/running-jobs" in asked
    assert "/" not in asked
    page.get_by_text("The numbers of the chart").click()
    page.evaluate("document.activeElement.blur()")
    page.evaluate("document.getElementById('content').classList.add('old')")
    page.clock.run_for(RATES_MS)
    page.wait_for_selector("#content.old", state="detached")
    page.locator(".chart canvas").wait_for()
    page.get_by_role("button", name="Copy").first.wait_for()


def test_hostile_texts_are_shown_and_do_nothing(
    sign_in: Callable[..., Any], coordinator: Coordinator
) -> None:
    coordinator.look_up_hostile(ATTACK)
    request = JobRequest("2" * 64, "", coordinator.target, "local", name=ATTACK)
    made = coordinator.store.queue.submit(request, BudgetLimits(trials=10))
    page = sign_in()
    assert page.locator(f".miss code:has-text({ATTACK!r})").first.is_visible()
    assert page.locator("#jobs bdi").first.inner_text() == ATTACK
    page.evaluate("htmx.ajax('GET', '/running-jobs', {target: '#jobs'})")
    assert page.evaluate("window.attacked") is None
    coordinator.store.queue.cancel(made.job_id)
