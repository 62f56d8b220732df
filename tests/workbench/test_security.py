"""Who may talk to the workbench, and what it never says: other pages, other names, other paths, confidential counts."""

import io
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile, ZipInfo

import pytest

pytest.importorskip("starlette", reason="needs the extra workbench")

from congenial.workbench.security import new_token
from releases import simulate
from workbench.bench import EXAMPLES, HOST, ORIGIN, PAGES, TOKEN, TestClient, client_of, desk_of, folder_with, tree_in

CANARY = 71_828_182


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    return folder_with(folder, "p12")


@pytest.fixture
def client(place: Path) -> Iterator[TestClient]:
    desk = desk_of(place)
    with client_of(desk) as found:
        yield found
    desk.close()


@pytest.fixture
def stranger(place: Path) -> Iterator[TestClient]:
    desk = desk_of(place)
    with client_of(desk, enters=False) as found:
        yield found
    desk.close()


WRONG_SECRETS = ["", "0" * 64, TOKEN[:-1], f"{TOKEN}0", TOKEN.upper(), f"/{TOKEN}", f"{TOKEN}%00", "%ff", "é"]


@pytest.mark.parametrize("secret", WRONG_SECRETS)
def test_nothing_without_the_secret(secret: str, stranger: TestClient) -> None:
    """Every address gives the same answer, which says how to come by the link and nothing else."""
    stranger.cookies.set("congenial-8000", TOKEN)
    answers = {
        (found.status_code, found.text)
        for page in [*PAGES, "/static/workbench.css", "/job/1", f"/?token={TOKEN}", "/nowhere"]
        for found in (stranger.get(f"/{secret}{page}" if secret else page),)
    }
    answers |= {(found.status_code, found.text) for found in (stranger.post(f"/{secret}/choose/save", json={}),)}
    ((status, text),) = answers
    assert status == 403
    assert "`congenial workbench` printed" in text
    assert "p12" not in text


def test_the_secret_opens_it_as_long_as_it_runs(stranger: TestClient, place: Path) -> None:
    for _ in range(2):
        assert stranger.get(f"/{TOKEN}/").status_code == 200
    bare = stranger.get(f"/{TOKEN}", follow_redirects=False)
    assert (bare.status_code, bare.headers["location"]) == (308, f"/{TOKEN}/")
    assert stranger.get(f"/{TOKEN}/spec/").status_code == 404  # and no redirect to an address without the secret
    assert stranger.get(f"/{TOKEN}/a/b").status_code == 404


def test_every_start_has_a_secret_of_its_own() -> None:
    assert len({new_token() for _ in range(100)}) == 100
    assert all(re.fullmatch("[0-9a-f]{64}", new_token()) for _ in range(3))


@pytest.mark.parametrize(
    "host",
    [
        *["evil.example", "evil.example:8000", "127.0.0.1", "127.0.0.1:8001", "localhost.evil.example:8000", ""],
        *["localhost:8000", "[::1]:8000"],  # another user may listen there
    ],
)
def test_another_name_is_refused_even_with_the_secret(host: str, client: TestClient) -> None:
    """DNS rebinding: a page of another name that points here."""
    assert client.get("/", headers={"host": host}).status_code == 421
    assert client.get("/", headers={"host": HOST}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:8001"},
        {"origin": "https://127.0.0.1:8000"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site", **ORIGIN},
        {"sec-fetch-site": "none", "origin": "null"},
        {},
    ],
)
def test_a_post_from_another_page_is_refused(headers: dict[str, str], client: TestClient, place: Path) -> None:
    before = (place / "p12/spec.yaml").read_bytes()
    body = {"file": "p12/spec.yaml", "changes": [{"remove": 0}]}
    del client.headers["origin"]
    assert client.post("/choose/save", json=body, headers=headers).status_code == 403
    assert (
        client.post("/release", data={"file": "p12/spec.yaml", "consent": "p12-demo"}, headers=headers).status_code
        == 403
    )
    assert (place / "p12/spec.yaml").read_bytes() == before
    assert not (place / "p12/p12-demo").exists()


def test_a_form_of_a_page_without_a_referrer_is_taken(client: TestClient) -> None:
    headers = {"origin": "null", "sec-fetch-site": "same-origin"}
    assert client.post("/choose/panel", json={"file": "p12/spec.yaml"}, headers=headers).status_code == 200


def test_a_script_of_another_page_cannot_even_read(client: TestClient) -> None:
    del client.headers["origin"]
    fetched = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "script"}
    assert client.get("/static/workbench.js", headers=fetched).status_code == 403


@pytest.mark.parametrize("page", PAGES)
def test_every_answer_shuts_out_scripts_frames_and_caches(page: str, client: TestClient) -> None:
    answer = client.get(page)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert "set-cookie" not in answer.headers
    assert TOKEN not in answer.text
    assert not re.search(r"<script(?! src=)|\son[a-z]+=|\sstyle=|javascript:", answer.text)
    assert not re.search(r"(?:src|href|action)=\"(?:https?:|/)", answer.text)


@pytest.mark.parametrize(
    "named",
    [
        "../secret.yaml",
        "/etc/passwd",
        "p12/../../secret.yaml",
        "link/secret.yaml",
        "link.yaml",
        "..\\secret.yaml",
        "p12/%00",
        "",
        "..",
    ],
)
def test_no_path_leads_out_of_the_folder(named: str, client: TestClient, place: Path) -> None:
    (place.parent / "secret.yaml").write_text("release: Ermintrude\n")
    os.symlink(place.parent, place / "link")
    os.symlink(place.parent / "secret.yaml", place / "link.yaml")
    for address in ("/spec", "/choose", "/release", "/confidential"):
        answer = client.get(address, params={"file": named})
        assert answer.status_code in {400, 404}
        assert "Ermintrude" not in answer.text
    assert client.get("/describe", params={"data": named}).status_code == 400
    answer = client.get("/ask", params={"bundle": named})
    assert "Ermintrude" not in answer.text
    assert client.get("/report", params={"bundle": named}).status_code in {400, 404}


@pytest.mark.parametrize(
    "line",
    [
        "  path: ../../secret.csv",
        "  path: /etc/passwd",
        "  path: [counts.csv, ../../secret.csv]",
        "  path: '../../*.csv'",
    ],
)
def test_a_spec_that_names_files_outside_is_refused(line: str, client: TestClient, place: Path) -> None:
    (place.parent / "secret.csv").write_text("sex,age,n\nErmintrude,20,7\n")
    spec = place / "p12/spec.yaml"
    spec.write_text(spec.read_text().replace("  path: counts.csv", line))
    for address in ("/spec", "/choose", "/release"):
        answer = client.get(address, params={"file": "p12/spec.yaml"})
        assert "outside of the workbench" in answer.text
        assert "Ermintrude" not in answer.text


def test_a_list_of_levels_outside_is_not_opened(client: TestClient, place: Path) -> None:
    (place.parent / "levels.csv").write_text("sex\nErmintrude\n")
    spec = place / "p12/spec.yaml"
    spec.write_text(spec.read_text().replace("sex: [female, male]", "sex: {levels: {file: ../../levels.csv}}"))
    answer = client.get("/spec", params={"file": "p12/spec.yaml"})
    assert "outside of the workbench" in answer.text
    assert "Ermintrude" not in answer.text


def test_static_files_stay_inside(client: TestClient) -> None:
    for name in ("../app.py", "..%2fapp.py", "%2e%2e/security.py"):
        assert client.get(f"/static/{name}").status_code == 404


HOSTILE = '<img src=x onerror="alert(1)">'


def test_a_hostile_label_is_shown_as_text(client: TestClient, place: Path) -> None:
    spec = place / "p12/spec.yaml"
    text = (
        spec.read_text()
        .replace("[female, male]", f"['{HOSTILE}', male]")
        .replace("total: female", f"total: '{HOSTILE}'")
    )
    spec.write_text(text.replace("title: Age and sex in a small area", f"title: '{HOSTILE}'"))
    counts = place / "p12/counts.csv"
    quoted = HOSTILE.replace('"', '""')
    counts.write_text(counts.read_text().replace("female,", f'"{quoted}",'))
    for page in [*PAGES, "/confidential?file=p12/spec.yaml"]:
        answer = client.get(page)
        assert answer.status_code == 200, page
        assert "<img" not in answer.text
    panel = client.post("/choose/panel", json={"file": "p12/spec.yaml"}).json()
    assert panel["ok"]
    assert "<img" not in panel["html"] + panel["invariants"]


def zipped(**files: bytes | str) -> bytes:
    out = io.BytesIO()
    with ZipFile(out, "w") as packed:
        for name, content in files.items():
            packed.writestr(name, content)
    return out.getvalue()


def test_zips_with_odd_names_links_and_sizes_are_refused(
    client: TestClient, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("congenial.workbench.opened.LARGEST_FILE", 1_000_000)
    link = ZipInfo("manifest.json")
    link.external_attr = 0o120777 << 16
    linked = io.BytesIO()
    with ZipFile(linked, "w") as packed:
        packed.writestr(link, "/etc/passwd")
    many = zipped(**{f"f{n}": "" for n in range(60)}, **{"manifest.json": "{}"})
    bomb = io.BytesIO()
    with ZipFile(bomb, "w", 8) as packed:
        packed.writestr("manifest.json", b"0" * 1_500_000)
    cases = {
        "traversal": zipped(**{"../manifest.json": "{}", "manifest.json": "{}"}),
        "absolute": zipped(**{"/manifest.json": "{}"}),
        "hidden": zipped(**{".bashrc": "x", "manifest.json": "{}"}),
        "no manifest": zipped(a="b"),
        "link": linked.getvalue(),
        "many": many,
        "bomb": bomb.getvalue(),
        "no zip": b"PK\x03\x04 nothing",
        "empty": b"",
    }
    for name, content in cases.items():
        answer = client.post("/ask-zip", files={"zip": (f"{name}.zip", content)})
        assert answer.status_code == 400, name
    assert not (place.parent / "manifest.json").exists()


def test_a_hostile_bundle_is_not_verified_and_shown_as_text(client: TestClient, tmp_path: Path) -> None:
    bundle = simulate(EXAMPLES / "p12/spec.yaml", tmp_path / "bundle", seed=1).folder
    files = {path.name: path.read_bytes() for path in bundle.iterdir()}
    good = client.post("/ask-zip", files={"zip": ("good.zip", zipped(**files))})
    assert "Verified" in good.text
    manifest = json.loads(files["manifest.json"])
    manifest["title"] = HOSTILE
    changed = {
        **files,
        "manifest.json": json.dumps(manifest).encode(),
        "report.html": f"<script>{HOSTILE}</script>".encode(),
    }
    bad = client.post("/ask-zip", files={"zip": ("bad.zip", zipped(**changed))})
    assert "Not verified" in bad.text
    assert "<img" not in bad.text
    name = re.search(r"<h1>(opened:[^<]+)</h1>", bad.text)
    assert name is not None
    report = client.get("/report", params={"bundle": name[1]})
    assert "sandbox;" in report.headers["content-security-policy"]
    assert "script-src" not in report.headers["content-security-policy"]
    asked = client.post("/ask/answer", json={"bundle": name[1], "query": "all", "level": "0.9"})
    assert asked.status_code == 400


@pytest.mark.parametrize(
    "body",
    [b"[]", b"{", b"null", b"[" * 100_000, b'{"file": 3}', b'{"file": "p12/spec.yaml", "changes": [{"add": 7}]}'],
)
def test_odd_requests_are_refused_in_words(body: bytes, client: TestClient) -> None:
    for address in ("/choose/panel", "/choose/cost", "/choose/levels", "/choose/save", "/ask/answer", "/ask/at-once"):
        answer = client.post(address, content=body, headers=ORIGIN)
        assert answer.status_code == 400
        assert answer.json()["error"]


def test_no_answer_holds_a_confidential_value(client: TestClient, place: Path) -> None:
    """Every count is unmistakable; but for the CONFIDENTIAL page, no answer has one, whatever goes wrong."""
    lines = (place / "p12/counts.csv").read_text().splitlines()
    header, rows = lines[0], [line.rsplit(",", 1)[0] for line in lines[1:]]
    counts = [CANARY + 1_009 * number for number in range(len(rows))]
    (place / "p12/counts.csv").write_text(
        "\n".join([header, *(f"{row},{n}" for row, n in zip(rows, counts, strict=True))]) + "\n"
    )
    spec = place / "p12/spec.yaml"
    text = spec.read_text()
    spec.write_text(text.replace("status: simulated", "status: confidential"))
    said = {"file": "p12/spec.yaml"}
    seen = [client.get(page).text for page in [*PAGES, "/describe?data=p12/counts.csv"]]
    changes = [
        [],
        [{"remove": 0}],
        [{"add": {"margin": ["sex"]}}],
        [{"budget": {"epsilon": "0"}}],
        [{"add": {"total": {"age": ["20"]}}}],
    ]
    seen += [client.post("/choose/panel", json={**said, "changes": own}).text for own in changes]
    seen += [client.post("/choose/cost", json={**said, "number": 3}).text, client.post("/choose/areas", json=said).text]
    started = client.post("/rehearse", data=said)
    seen += [started.text, client.get("/job/1").text]
    while not client.get("/job/1").json()["is_over"]:
        pass
    result = client.get("/job/1").json()
    assert not result["error"]
    shown = client.get(result["result"])
    report = client.get("/report", params={"bundle": re.search(r'data-bundle="([^"]+)"', shown.text)[1]})  # type: ignore[index]
    seen += [shown.text, report.text]
    broken = text.replace("status: simulated", "status: confidential").replace(
        "  - total\n", "  - {total: all, equals: 7}\n"
    )
    spec.write_text(broken)
    seen += [client.post("/choose/panel", json=said).text, client.get("/release", params=said).text]
    (place / "p12/counts.csv").write_text(f"{header}\nfemale,Ermintrude,{CANARY}\n")
    spec.write_text(text.replace("status: simulated", "status: confidential"))
    seen += [client.post("/choose/panel", json=said).text, client.get("/confidential", params=said).text]
    numbers = [re.compile(rf"(?<!\d){n:,}(?!\d)|(?<!\d){n}(?!\d)") for n in counts]
    for answer in seen:
        assert not any(number.search(answer) for number in numbers)
        assert "Ermintrude" not in answer


def test_no_answer_about_a_tree_holds_a_confidential_value(tmp_path: Path) -> None:
    """The same for the leaves of a tree: chosen, given away, rehearsed, and when its data are broken."""
    place = tmp_path / "trees"
    folder = tree_in(place, lambda block, cell: CANARY + 1_009 * (4 * block + cell))
    spec = folder / "spec.yaml"
    spec.write_text(spec.read_text().replace("status: simulated", "status: confidential"))
    said = {"file": "town/spec.yaml"}
    desk = desk_of(place)
    with client_of(desk) as client:
        pages = ["/", "/spec?file=town/spec.yaml", "/choose?file=town/spec.yaml", "/release?file=town/spec.yaml"]
        seen = [client.get(page).text for page in pages]
        changes = [[], [{"add": {"margin": ["sex"]}}], [{"add": {"total": {"age": ["old"]}, "at": "tract"}}]]
        seen += [client.post("/choose/panel", json={**said, "changes": own}).text for own in changes]
        assert all('"ok":true' in answer for answer in seen[-3:])
        seen += [client.post("/choose/levels", json=said).text, client.get("/confidential", params=said).text]
        client.post("/rehearse", data=said)
        while not (job := client.get("/job/1").json())["is_over"]:
            pass
        assert not job["error"]
        shown = client.get(job["result"])
        name = re.search(r'name="bundle" value="([^"]+)"', shown.text)
        assert name is not None
        blocks = client.get("/ask", params={"bundle": name[1], "show": "block"})
        assert blocks.status_code == 200
        seen += [shown.text, blocks.text, client.get("/report", params={"bundle": name[1]}).text]
        (folder / "counts.csv").write_text(f"block,sex,age,n\nErmintrude,female,old,{CANARY}\n")
        seen += [client.post("/choose/panel", json=said).text, client.post("/choose/levels", json=said).text]
    desk.close()
    numbers = [re.compile(rf"(?<!\d)({n:,}|{n})(?!\d)") for n in range(CANARY, CANARY + 96 * 1_009, 1_009)]
    for answer in seen:
        assert not any(number.search(answer) for number in numbers)
        assert "Ermintrude" not in answer


def test_a_hostile_tree_is_shown_as_text(tmp_path: Path) -> None:
    folder = tree_in(tmp_path)
    spec = folder / "spec.yaml"
    text = spec.read_text().replace("county:", f"'{HOSTILE}':").replace("[young, old]", f"[young, '{HOSTILE}']")
    spec.write_text(text)
    quoted = HOSTILE.replace('"', '""')
    counts = folder / "counts.csv"
    counts.write_text(counts.read_text().replace(",old,", f',"{quoted}",'))
    desk = desk_of(tmp_path)
    with client_of(desk) as client:
        page = client.get("/choose", params={"file": "town/spec.yaml"})
        panel = client.post("/choose/panel", json={"file": "town/spec.yaml"})
        assert page.status_code == panel.status_code == 200
        assert "<img" not in page.text
        assert "<img" not in panel.json()["html"]
    desk.close()


def test_the_canary_can_be_found(client: TestClient, place: Path) -> None:
    counts = place / "p12/counts.csv"
    lines = counts.read_text().splitlines()
    counts.write_text("\n".join([lines[0], lines[1].rsplit(",", 1)[0] + f",{CANARY}", *lines[2:]]) + "\n")
    page = client.get("/confidential", params={"file": "p12/spec.yaml"})
    assert f"{CANARY:,}" in page.text
    assert "CONFIDENTIAL" in page.text
