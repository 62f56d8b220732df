"""Who published a bundle: the right key, another, none, and keys that are none."""

import json
import shutil
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from congenial.bundle.loading import load_bundle
from congenial.bundle.signing import create_key, read_private_key, read_public_key, sign
from congenial.errors import BundleError
from releases import Maker


def test_the_right_key(bundle: Path, made: Maker) -> None:
    key = made("one table") / "key.pub"
    found = load_bundle(bundle, key=key)
    raw = read_public_key(key).public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    assert found.signed_by == raw.hex() == load_bundle(bundle).signed_by


def test_another_key(bundle: Path, tmp_path: Path) -> None:
    create_key(tmp_path / "other")
    with pytest.raises(BundleError, match="signed by another key"):
        load_bundle(bundle, key=tmp_path / "other.pub")


def test_no_signature(bundle: Path, made: Maker) -> None:
    (bundle / "signature.json").unlink()
    with pytest.raises(BundleError, match=r"not signed: it has no signature\.json"):
        load_bundle(bundle, key=made("one table") / "key.pub")
    assert load_bundle(bundle).signed_by is None


def test_somebody_else_signs_a_changed_bundle(bundle: Path, made: Maker, tmp_path: Path) -> None:
    """Whoever can write the whole folder can make it consistent; only the publisher's key tells."""
    create_key(tmp_path / "other")
    other = read_private_key(tmp_path / "other")
    (bundle / "signature.json").write_bytes(sign((bundle / "manifest.json").read_bytes(), other))
    load_bundle(bundle)
    with pytest.raises(BundleError, match="signed by another key"):
        load_bundle(bundle, key=made("one table") / "key.pub")


def test_the_signature_of_another_manifest(bundle: Path, made: Maker) -> None:
    shutil.copyfile(made("ranges") / "bundle" / "signature.json", bundle / "signature.json")
    with pytest.raises(BundleError, match="does not sign this manifest"):
        load_bundle(bundle)


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[]", b"null", b'{"public_key": 1, "signature": 2}', b'{"public_key": "00", "signature": "00"}',
     b"\xff", b"[" * 100_000, b'{"public_key": "zz", "signature": "00"}'],
)  # fmt: skip
def test_what_is_no_signature(bundle: Path, content: bytes) -> None:
    (bundle / "signature.json").write_bytes(content)
    with pytest.raises(BundleError):
        load_bundle(bundle)


def test_a_signature_in_other_words(bundle: Path) -> None:
    """The same numbers in capitals, with blanks, in another order, with a remark: changed since it was written."""
    path = bundle / "signature.json"
    record = json.loads(path.read_bytes())
    versions = [
        {**record, "signature": record["signature"].upper()},
        {**record, "public_key": record["public_key"].upper()},
        {**record, "signature": record["signature"][:2] + " " + record["signature"][2:]},
        dict(reversed(record.items())),
        {**record, "remark": ""},
        {**record, "algorithm": "ed25519"},
    ]
    for version in versions:
        path.write_text(json.dumps(version, indent=1) + "\n", encoding="utf-8")
        with pytest.raises(BundleError, match="signature"):
            load_bundle(bundle)


def test_keys_are_private_and_never_overwritten(tmp_path: Path) -> None:
    assert create_key(tmp_path / "key") == "key.pub"
    assert (tmp_path / "key").stat().st_mode & 0o077 == 0
    before = (tmp_path / "key").read_bytes()
    with pytest.raises(BundleError, match="file exists"):
        create_key(tmp_path / "key")
    assert (tmp_path / "key").read_bytes() == before
    with pytest.raises(BundleError, match="no such file or directory"):
        create_key(tmp_path / "missing" / "key")


def test_a_taken_public_name_leaves_no_lone_private_key(tmp_path: Path) -> None:
    (tmp_path / "key.pub").write_text("another's", encoding="utf-8")
    with pytest.raises(BundleError, match="file exists"):
        create_key(tmp_path / "key")
    assert [path.name for path in tmp_path.iterdir()] == ["key.pub"]


def written(path: Path, key: object) -> Path:
    assert isinstance(key, ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey)
    locked = serialization.BestAvailableEncryption(b"word") if path.name == "locked" else serialization.NoEncryption()
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked))
    return path


def test_files_that_hold_no_private_key(tmp_path: Path) -> None:
    create_key(tmp_path / "key")
    (tmp_path / "text").write_text("a key", encoding="utf-8")
    written(tmp_path / "locked", ed25519.Ed25519PrivateKey.generate())
    written(tmp_path / "curve", ec.generate_private_key(ec.SECP256R1()))
    for name, words in {
        "none": "no such file",
        ".": "is a directory",
        "text": "congenial keygen NEW_FILE",
        "key.pub": "is a public key; sign with the private one",
        "locked": "without a password",
        "curve": "Ed25519 is needed",
    }.items():
        with pytest.raises(BundleError, match=words):
            read_private_key(tmp_path / name)


def test_files_that_hold_no_public_key(tmp_path: Path) -> None:
    create_key(tmp_path / "key")
    curve = ec.generate_private_key(ec.SECP256R1()).public_key()
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    (tmp_path / "curve.pub").write_bytes(curve.public_bytes(serialization.Encoding.PEM, form))
    for name, words in {"none": "no such file", "key": r"ends in \.pub", "curve.pub": "Ed25519 is needed"}.items():
        with pytest.raises(BundleError, match=words):
            read_public_key(tmp_path / name)
