"""Who published a bundle: the right key, another, none, and keys that are none."""

import json
import shutil
from hashlib import sha512
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from congenial.bundle.signing import (
    check_signature,
    create_key,
    has_small_order,
    read_private_key,
    read_public_key,
    sign,
)
from congenial.errors import BundleError
from congenial.inference.analyst_bundle import load_bundle
from releases import Maker


def test_the_right_key(bundle: Path, case_folder: Maker) -> None:
    key = case_folder("one table") / "key.pub"
    loaded = load_bundle(bundle, key=key)
    raw = read_public_key(key).public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    assert loaded.signed_by == raw.hex() == load_bundle(bundle).signed_by


def test_another_key(bundle: Path, tmp_path: Path) -> None:
    create_key(tmp_path / "other")
    with pytest.raises(BundleError, match="signed by another key"):
        load_bundle(bundle, key=tmp_path / "other.pub")


def test_no_signature(bundle: Path, case_folder: Maker) -> None:
    (bundle / "signature.json").unlink()
    with pytest.raises(BundleError, match=r"not signed: it has no signature\.json"):
        load_bundle(bundle, key=case_folder("one table") / "key.pub")
    assert load_bundle(bundle).signed_by is None


def test_somebody_else_signs_a_changed_bundle(bundle: Path, case_folder: Maker, tmp_path: Path) -> None:
    """Whoever can write the whole folder can make it consistent; only the publisher's key tells."""
    create_key(tmp_path / "other")
    other = read_private_key(tmp_path / "other")
    (bundle / "signature.json").write_bytes(sign((bundle / "manifest.json").read_bytes(), other))
    load_bundle(bundle)
    with pytest.raises(BundleError, match="signed by another key"):
        load_bundle(bundle, key=case_folder("one table") / "key.pub")


def test_the_signature_of_another_manifest(bundle: Path, case_folder: Maker) -> None:
    shutil.copyfile(case_folder("ranges") / "bundle" / "signature.json", bundle / "signature.json")
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


FIELD, GROUP = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
SMALL = [  # order 1, 2, 4 and 8
    *("01" + "00" * 31, "ec" + "ff" * 30 + "7f", "00" * 32, "00" * 31 + "80"),
    *("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc" + last for last in ("05", "85")),
    *("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03" + last for last in ("7a", "fa")),
]
NOT_CANONICAL = [  # x = 0 with a sign, y = p and y = p + 1
    *("01" + "00" * 30 + "80", "ec" + "ff" * 31),
    *("ed" + "ff" * 30 + "7f", "ed" + "ff" * 31, "ee" + "ff" * 30 + "7f", "ee" + "ff" * 31),
]


def secret_scalar(seed: bytes) -> int:
    """The number whose multiple of the base point is the public key of a seed (RFC 8032)."""
    clamped = bytearray(sha512(seed).digest()[:32])
    clamped[0] &= 248
    clamped[31] = clamped[31] & 127 | 64
    return int.from_bytes(clamped, "little")


def forged(content: bytes, public: bytes) -> bytes:
    """A signature for a key whose private half nobody has: a random R with its logarithm, until the hash fits."""
    key = ed25519.Ed25519PublicKey.from_public_bytes(public)
    for number in range(200):
        seed = sha512(b"%d" % number).digest()[:32]
        point = ed25519.Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
        signature = point + (secret_scalar(seed) % GROUP).to_bytes(32, "little")
        try:
            key.verify(signature, content)
        except InvalidSignature:
            continue
        return signature
    raise AssertionError("no forgery was found")


def signature_file(public: bytes, signature: bytes) -> bytes:
    record = {"algorithm": "Ed25519", "public_key": public.hex(), "signature": signature.hex()}
    return (json.dumps(record, indent=1) + "\n").encode()


def test_the_small_points_are_all_there() -> None:
    """x^2 (d y^2 + 1) = y^2 - 1, and three doublings lead to the neutral element: for these encodings alone."""
    d = -121665 * pow(121666, -1, FIELD) % FIELD

    def doubled_y(y: int) -> int:
        square = y * y % FIELD
        x_square = (square - 1) * pow(d * square + 1, -1, FIELD) % FIELD
        return (square + x_square) * pow(1 - d * x_square * square, -1, FIELD) % FIELD

    ways = [y + turn | sign << 255 for y in range(19) for turn in (0, FIELD) for sign in (0, 1) if y + turn < 2**255]
    ways += [int.from_bytes(bytes.fromhex(text), "little") for text in SMALL]
    ways += [secret_scalar(b"%d" % number) for number in range(100)]
    for way in ways:
        y = (way & 2**255 - 1) % FIELD
        is_small = doubled_y(doubled_y(doubled_y(y))) == 1
        assert has_small_order(way.to_bytes(32, "little")) == is_small
        assert not is_small or way.to_bytes(32, "little").hex() in SMALL + NOT_CANONICAL
    assert len(set(SMALL + NOT_CANONICAL)) == 14


@pytest.mark.parametrize("point", SMALL + NOT_CANONICAL)
def test_keys_of_small_order_are_refused(point: str, tmp_path: Path) -> None:
    """`cryptography` alone takes the forgery: without the check, anybody is the publisher."""
    public = bytes.fromhex(point)
    content = b"a manifest that nobody signed"
    signature = forged(content, public)
    file = signature_file(public, signature)
    key = ed25519.Ed25519PublicKey.from_public_bytes(public)
    for key_file in (None, key):
        with pytest.raises(BundleError, match="of small order"):
            check_signature(content, file, key_file)
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    (tmp_path / "key.pub").write_bytes(key.public_bytes(serialization.Encoding.PEM, form))
    with pytest.raises(BundleError, match=r"key\.pub holds a public key of small order.*congenial keygen"):
        read_public_key(tmp_path / "key.pub")


def test_a_signature_with_a_nonce_of_zero_is_refused() -> None:
    """It verifies, and whoever sees it divides by the hash and has the private key."""
    content, seed = b"a manifest", sha512(b"careless").digest()[:32]
    key = ed25519.Ed25519PrivateKey.from_private_bytes(seed).public_key()
    neutral = bytes.fromhex(SMALL[0])
    number = int.from_bytes(sha512(neutral + key.public_bytes_raw() + content).digest(), "little")
    signature = neutral + (number * secret_scalar(seed) % GROUP).to_bytes(32, "little")
    key.verify(signature, content)  # `cryptography` has nothing against it
    with pytest.raises(BundleError, match="of small order"):
        check_signature(content, signature_file(key.public_bytes_raw(), signature), key)


def test_a_bundle_signed_by_nobody(bundle: Path) -> None:
    content = (bundle / "manifest.json").read_bytes()
    public = bytes.fromhex(SMALL[4])
    (bundle / "signature.json").write_bytes(signature_file(public, forged(content, public)))
    with pytest.raises(BundleError, match="of small order"):
        load_bundle(bundle)
