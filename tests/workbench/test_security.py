"""Who may talk to the workbench, and what it never says: other pages, other names, other paths, confidential counts."""

import asyncio
import io
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import numpy as np
import pytest

pytest.importorskip("starlette", reason="needs the extra workbench")

from starlette.responses import Response

from congenial.release_key import KeyFolder, ReleaseKey
from congenial.workbench import endpoints_and_templates as serving
from congenial.workbench.app_and_guard import new_token
from congenial.workbench.jobs_and_errors import silence_loop
from congenial.workbench.workspace import Workspace, digest_of
from releases import simulate
from workbench.bench import (
    EXAMPLES,
    HOST,
    ORIGIN,
    PAGES,
    TOKEN,
    TestClient,
    client_of,
    folder_with,
    tree_in,
    workspace_of,
)

CANARY = 71_828_182


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    return folder_with(folder, "p12")


@pytest.fixture
def workspace(place: Path) -> Iterator[Workspace]:
    made = workspace_of(place)
    yield made
    made.close()


@pytest.fixture
def client(workspace: Workspace) -> Iterator[TestClient]:
    with client_of(workspace) as found:
        yield found


@pytest.fixture
def stranger(workspace: Workspace) -> Iterator[TestClient]:
    with client_of(workspace, enters=False) as found:
        yield found


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


def planted(place: Path) -> list[str]:
    """Put files into a folder that are no specs, each with a name in it; return their paths."""
    key = KeyFolder(place / "budget.db.keys", "account").begin(
        ReleaseKey(), "p12-example", "Ermintrude", {}, {}, np.zeros((1, 2), np.int64)
    )
    key.close()
    names = [
        *["p12/people.csv", "CONFIDENTIAL-areas.yaml", "p12/confidential-areas.yaml", ".hidden.yaml", "notes.txt"],
        *[".p12-demo.unfinished-x1/spec.yaml", "published/spec.yaml", "budget.db.keys/spec.yaml", "keys/release.key"],
        *["spec.yaml.bak", "SPEC.YAML", "p12/.spec.yaml.abc"],
    ]
    for name in [*names, "published/manifest.json", "p12/README"]:
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text("release: Ermintrude\n")
    os.symlink("people.csv", place / "p12/linked.yaml")
    os.symlink("p12", place / "link")
    os.mkfifo(place / "pipe.yaml")
    (place / "folder.yaml").mkdir()
    return [
        *[path.relative_to(place).as_posix() for path in (key.path, place / "budget.db", place / "p12/README")],
        *[*names, "p12/linked.yaml", "link/spec.yaml", "pipe.yaml", "folder.yaml", "p12", "."],
    ]


def test_only_specs_are_shown_and_overwritten(client: TestClient, place: Path) -> None:
    """Counts, the key of a release under way, the ledger: whatever else there is in the folder is no spec."""
    names = planted(place)
    before = {path: path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()}
    for named in names:
        content = before.get(place / named, b"").decode("utf-8", "replace")
        said = {"file": named, "digest": digest_of(content), "text": "overwritten", "consent": "Ermintrude"}
        answers = [client.get(page, params=said) for page in ("/spec", "/choose", "/release", "/confidential")]
        answers += [client.post(page, data=said) for page in ("/spec", "/describe-part", "/simulate", "/release")]
        answers += [client.post("/spec", data={**said, "only": "check"})]
        changes = [{"add": {"total": "all"}}]
        for page in ("panel", "cost", "areas", "levels", "sampler", "save"):
            answers.append(client.post(f"/choose/{page}", json={**said, "changes": changes}))
        for answer in answers:
            assert answer.status_code == 400, (named, answer.url)
            assert "Ermintrude" not in answer.text.replace(named, "")
            assert "is no spec of the workbench" in answer.text.replace("&#39;", "'")
    assert {path: path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()} == before
    assert client.get("/spec", params={"file": "p12/spec.yaml"}).status_code == 200


def test_other_parameters_name_what_they_are_for(client: TestClient, place: Path) -> None:
    """Columns are read of data files, and reports of bundles: not the first line of a key, nor a page of any folder."""
    names = [*planted(place), "p12/spec.yaml"]
    (place / "p12/report.html").write_text("Ermintrude")
    (place / ".p12-demo.unfinished-x1/manifest.json").write_text("{}")
    (place / ".p12-demo.unfinished-x1/report.html").write_text("Ermintrude")
    for named in set(names) - {"p12/people.csv"}:
        fields = {"data": named, "name": "new.yaml", "release": "mine"}
        for answer in (client.get("/describe", params={"data": named}), client.post("/describe", data=fields)):
            assert answer.status_code == 400, named
            assert "Ermintrude" not in answer.text
    for named in [*names, ".p12-demo.unfinished-x1"]:
        said = {"bundle": named, "query": "all", "level": "0.9", "units": "1"}
        answers = [client.get(page, params=said) for page in ("/ask", "/report", "/answers.csv")]
        answers += [client.post(page, json=said) for page in ("/ask/answer", "/ask/at-once")]
        for answer in answers:
            assert answer.status_code == 400, named
            assert "Ermintrude" not in answer.text.replace(named, "")
    assert not (place / "new.yaml").exists()
    for name in ("../new.yaml", ".new.yaml", "new.csv", "CONFIDENTIAL-new.yaml", "p12/new.yaml", "spec.yaml"):
        fields = {"data": "p12/people.csv", "name": name, "release": "mine"}
        assert client.post("/describe", data=fields).status_code == 400, name


@pytest.mark.parametrize(
    "named",
    [
        *["../budget.db.keys/spec.yaml", "keys/mine.key", ".hidden.csv", "CONFIDENTIAL-areas.csv", "x.keys/levels.csv"],
        *["linked.csv", "notes.txt", "outside/secret.csv", "*/secret.csv", "?utside/*"],
    ],
)
def test_a_spec_reads_data_files_alone(named: str, client: TestClient, place: Path) -> None:
    """A list of levels is shown: it is no way to see a key, what is marked or hidden, nor where a link leads."""
    folder = place / "p12"
    for name in ("keys/mine.key", ".hidden.csv", "CONFIDENTIAL-areas.csv", "x.keys/levels.csv", "notes.txt"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("sex\nErmintrude\n")
    os.symlink("notes.txt", folder / "linked.csv")
    outside = place.parent / "outside"
    outside.mkdir()
    (outside / "secret.csv").write_text("sex\nErmintrude\n")
    os.symlink(outside, folder / "outside")
    spec = folder / "spec.yaml"
    text = spec.read_text()
    for changed in (
        text.replace("sex: [female, male]", f"sex: {{levels: {{file: '{named}'}}}}"),
        text.replace("path: counts.csv", f"path: '{named}'"),
    ):
        assert changed != text
        spec.write_text(changed)
        answers = [client.get(page, params={"file": "p12/spec.yaml"}) for page in ("/spec", "/choose", "/confidential")]
        for answer in answers:
            assert "no file that it reads" in answer.text
            assert "Ermintrude" not in answer.text


def test_a_pattern_of_data_passes_over_what_is_marked(client: TestClient, place: Path) -> None:
    (place / "p12/CONFIDENTIAL-areas.csv").write_text("Ermintrude\n")
    spec = place / "p12/spec.yaml"
    spec.write_text(spec.read_text().replace("path: counts.csv", "path: '*.csv'"))
    assert client.post("/choose/panel", json={"file": "p12/spec.yaml"}).json()["ok"]


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
    monkeypatch.setattr("congenial.workbench.open_bundles_and_answers.LARGEST_FILE", 1_000_000)
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


def packed_bundle(place: Path) -> bytes:
    bundle = simulate(EXAMPLES / "p12/spec.yaml", place / "bundle", seed=1).folder
    out = io.BytesIO()
    with ZipFile(out, "w", ZIP_DEFLATED) as packed:
        for path in sorted(bundle.iterdir()):
            packed.writestr(path.name, path.read_bytes())
    return out.getvalue()


def with_bytes(content: bytes, place: int, new: bytes) -> bytes:
    return content[:place] + new + content[place + len(new) :]


def test_damaged_zips_are_refused(
    client: TestClient, workspace: Workspace, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    whole = packed_bundle(tmp_path)
    with ZipFile(io.BytesIO(whole)) as packed:
        info = packed.getinfo("table.csv")
        entries = packed.start_dir
    data = info.header_offset + 30 + len(info.filename)
    listed = whole.index(b"table.csv", entries) - 46  # its line in the list of files
    end = whole.rindex(b"PK\x05\x06")
    many = io.BytesIO()
    with ZipFile(many, "w") as packed:
        for number in range(25_000):
            packed.writestr(f"f{number}", b"")
    cases = {
        "deflate data": with_bytes(whole, data, b"\xff" * 40),
        "end of deflate data": with_bytes(whole, data + info.compress_size - 4, b"\0" * 4),
        "crc": with_bytes(whole, listed + 16, b"\1\2\3\4"),
        "encrypted": with_bytes(whole, listed + 8, b"\1"),
        "lzma": with_bytes(whole, listed + 10, b"\x0e"),
        "unknown method": with_bytes(whole, listed + 10, b"\x63"),
        "name": with_bytes(whole, data - len(info.filename), b"other.csv"),
        "claimed size": with_bytes(whole, listed + 24, b"\xff\xff\xff\x7f"),
        "offset of a file": with_bytes(whole, listed + 42, b"\xff\xff\xff\x7f"),
        "list of files": with_bytes(whole, entries, b"XX"),
        "place of the list": with_bytes(whole, end + 16, b"\xff\xff\xff\x7f"),
        "size of the list": with_bytes(whole, end + 12, b"\xff\xff\xff\x7f"),
        "zip64": with_bytes(whole, end + 8, b"\xff" * 12),
        "no end": whole[:-1],
        "half": whole[: len(whole) // 2],
        "long list": many.getvalue(),
    }
    messages = {}
    for name, content in cases.items():
        answer = client.post("/ask-zip", files={"zip": ("bundle.zip", content)}, follow_redirects=False)
        assert answer.status_code == 400, name
        messages[name] = re.search(r'"warning" role="alert"><p>(.*)</p>', answer.text)[1]  # type: ignore[index]
        assert "internal" not in answer.text
    assert "damaged" in messages["deflate data"]
    assert "encrypted" in messages["encrypted"]
    assert "list of files is longer" in messages["long list"]
    assert list(workspace.scratch.iterdir()) == []
    assert client.post("/ask-zip", files={"zip": ("bundle.zip", whole)}).status_code == 200
    assert capfd.readouterr().err == ""


def test_no_damage_of_a_zip_is_an_internal_error(client: TestClient, tmp_path: Path) -> None:
    """400 zips with some bytes changed, many of them in headers: each is opened or refused."""
    whole = packed_bundle(tmp_path)
    with ZipFile(io.BytesIO(whole)) as packed:
        headers = [info.header_offset + own for info in packed.infolist() for own in range(30)]
        headers += list(range(packed.start_dir, len(whole)))
    random = Random("test_no_damage_of_a_zip_is_an_internal_error")
    statuses = set()
    for number in range(400):
        content = bytearray(whole)
        for _ in range(random.randint(1, 3)):
            content[random.choice(headers) if number % 4 else random.randrange(len(content))] = random.randrange(256)
        answer = client.post("/ask-zip", files={"zip": ("bundle.zip", bytes(content))}, follow_redirects=False)
        statuses.add(answer.status_code)
    assert statuses <= {303, 400}
    assert 400 in statuses


def test_an_internal_error_is_said_by_its_class_and_place(
    client: TestClient, place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The text of an exception may quote data: it is on no page and not on stderr."""

    def fail(*_: object) -> None:
        raise ValueError(f"Ermintrude {CANARY}")

    monkeypatch.setattr("congenial.workbench.app_and_guard.list_folder", fail)
    monkeypatch.setattr("congenial.workbench.workspace.read_together", fail)
    monkeypatch.setattr("congenial.workbench.endpoints_and_templates.page", page_that_fails_once())
    said = {"file": "p12/spec.yaml"}
    answers = [client.get("/nowhere"), client.get("/"), client.post("/choose/panel", json=said)]
    answers += [client.get("/confidential", params=said)]
    client.post("/simulate", data=said)
    while not (job := client.get("/job/1").json())["is_over"]:
        pass
    for answer in answers:
        assert answer.status_code == 500
        assert "internal error" in answer.text
    texts = [*(answer.text for answer in answers), job["error"]]
    assert all("internal error: ValueError at congenial/workbench/" in text for text in texts)
    out, wrong = capfd.readouterr()
    assert out == ""
    assert wrong
    for line in wrong.splitlines():
        assert re.fullmatch(r"internal error: ValueError at congenial/workbench/\w+\.py:\d+", line)
    for text in [*texts, wrong]:
        assert "Ermintrude" not in text
        assert str(CANARY) not in text


def test_an_error_that_nobody_waits_for_is_said_without_its_text(capfd: pytest.CaptureFixture[str]) -> None:
    async def leave() -> None:
        silence_loop(asyncio.get_running_loop())
        promise = asyncio.get_running_loop().create_future()
        promise.set_exception(ValueError(f"Ermintrude {CANARY}"))
        del promise

    asyncio.run(leave())
    assert capfd.readouterr().err == "internal error: ValueError at a place outside of the package\n"


def page_that_fails_once() -> Callable[..., Response]:
    """A page that is broken itself, where no endpoint's own handling of errors is around it."""
    is_first, make = [True], serving.page

    def failing(*given: Any, **values: Any) -> Response:
        if is_first.pop() if is_first else False:
            raise ValueError(f"Ermintrude {CANARY}")
        return make(*given, **values)

    return failing


def test_too_little_memory_is_a_refusal(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError(f"Ermintrude {CANARY}")

    monkeypatch.setattr("congenial.workbench.app_and_guard.list_folder", fail)
    monkeypatch.setattr("congenial.workbench.workspace.read_together", fail)
    monkeypatch.setattr("congenial.workbench.open_bundles_and_answers.ZipFile", fail)
    said = {"file": "p12/spec.yaml"}
    answers = [client.get("/"), client.post("/choose/panel", json=said), client.get("/confidential", params=said)]
    answers += [client.post("/ask-zip", files={"zip": ("bundle.zip", b"PK")})]
    client.post("/simulate", data=said)
    while not (job := client.get("/job/1").json())["is_over"]:
        pass
    for answer in answers:
        assert answer.status_code == 503
    for text in [*(answer.text for answer in answers), job["error"]]:
        assert "memory of this computer is not enough" in text
        assert "Ermintrude" not in text
    assert client.get("/ledger").status_code == 200


def test_a_request_that_is_too_long_is_refused(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("congenial.workbench.app_and_guard.LARGEST_BODY", 1_000)
    assert client.post("/ask-zip", files={"zip": ("bundle.zip", b"0" * 2_000)}).status_code == 413
    assert client.post("/choose/panel", json={"file": "0" * 2_000}).status_code == 413


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
    started = client.post("/simulate", data=said)
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
    workspace = workspace_of(place)
    with client_of(workspace) as client:
        pages = ["/", "/spec?file=town/spec.yaml", "/choose?file=town/spec.yaml", "/release?file=town/spec.yaml"]
        seen = [client.get(page).text for page in pages]
        changes = [[], [{"add": {"margin": ["sex"]}}], [{"add": {"total": {"age": ["old"]}, "at": "tract"}}]]
        seen += [client.post("/choose/panel", json={**said, "changes": own}).text for own in changes]
        assert all('"ok":true' in answer for answer in seen[-3:])
        seen += [client.post("/choose/levels", json=said).text, client.get("/confidential", params=said).text]
        client.post("/simulate", data=said)
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
    workspace.close()
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
    workspace = workspace_of(tmp_path)
    with client_of(workspace) as client:
        page = client.get("/choose", params={"file": "town/spec.yaml"})
        panel = client.post("/choose/panel", json={"file": "town/spec.yaml"})
        assert page.status_code == panel.status_code == 200
        assert "<img" not in page.text
        assert "<img" not in panel.json()["html"]
    workspace.close()


def test_the_canary_can_be_found(client: TestClient, place: Path) -> None:
    counts = place / "p12/counts.csv"
    lines = counts.read_text().splitlines()
    counts.write_text("\n".join([lines[0], lines[1].rsplit(",", 1)[0] + f",{CANARY}", *lines[2:]]) + "\n")
    page = client.get("/confidential", params={"file": "p12/spec.yaml"})
    assert f"{CANARY:,}" in page.text
    assert "CONFIDENTIAL" in page.text
