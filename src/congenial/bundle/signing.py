"""Ed25519 signatures of a manifest: who published it."""

import errno
import json
import os
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from congenial.errors import BundleError, reason_of

PrivateKey = Ed25519PrivateKey


def create_key(path: Path) -> str:
    """Write a new private key to a file that only its owner can read, and the public one beside it; return its name.

    The public key is what `congenial verify --key` takes; the private one never leaves the curator.
    """
    public_path = path.with_name(path.name + ".pub")
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    try:
        if os.path.lexists(public_path):  # before there is a private key without its other half
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        with open(path, "xb", opener=_private) as out:
            out.write(private)
        with public_path.open("xb") as out:
            out.write(public)
    except OSError as refused:
        raise BundleError(f"the key could not be written to {path}: {reason_of(refused)}; name a new file") from None
    return public_path.name


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def sign(content: bytes, key: Ed25519PrivateKey) -> bytes:
    """Return the signature file of some bytes."""
    record = {
        "algorithm": "Ed25519",
        "public_key": _raw(key.public_key()).hex(),
        "signature": key.sign(content).hex(),
    }
    return (json.dumps(record, indent=1) + "\n").encode()


def read_private_key(path: Path) -> Ed25519PrivateKey:
    """Read a private key in PEM form."""
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except OSError as refused:
        raise BundleError(f"the key {path} cannot be read: {reason_of(refused)}") from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        if path.suffix == ".pub":
            raise BundleError(
                f"{path} is a public key; sign with the private one, {path.with_suffix('').name}"
            ) from None
        raise BundleError(
            f"{path} holds no private key without a password in PEM form; congenial keygen NEW_FILE makes one"
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise BundleError(f"{path} holds a key of another kind, and Ed25519 is needed; make one: congenial keygen")
    return key


def read_public_key(path: Path) -> Ed25519PublicKey:
    """Read a public key in PEM form."""
    try:
        key = serialization.load_pem_public_key(path.read_bytes())
    except OSError as refused:
        raise BundleError(f"the key {path} cannot be read: {reason_of(refused)}") from None
    except (ValueError, UnsupportedAlgorithm):
        raise BundleError(f"{path} holds no public key in PEM form; it is the file that ends in .pub") from None
    if not isinstance(key, Ed25519PublicKey):
        raise BundleError(f"{path} holds a key of another kind, and Ed25519 is needed")
    return key


def check_signature(content: bytes, signature: bytes, key: Ed25519PublicKey | None) -> str:
    """Return the public key that signed some bytes, as text; refuse a signature that does not fit, or another key."""
    try:
        record = json.loads(signature)
        public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(record["public_key"]))
        signed = bytes.fromhex(record["signature"])
        public.verify(signed, content)
    except (ValueError, KeyError, TypeError, RecursionError, InvalidSignature):
        raise BundleError("signature.json does not sign this manifest: one of the two was changed") from None
    expected = {"algorithm": "Ed25519", "public_key": _raw(public).hex(), "signature": signed.hex()}
    if (json.dumps(expected, indent=1) + "\n").encode() != signature:
        raise BundleError("signature.json was changed since it was written")
    if key is not None and _raw(public) != _raw(key):
        raise BundleError("the bundle is signed by another key than the one given")
    return _raw(public).hex()


def _raw(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
