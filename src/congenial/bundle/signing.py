"""Ed25519 signatures of a manifest: who published it.

Eight points of the curve have an order of at most 8. With one of them as the public key anybody can sign anything: the
product of key and hash, which ties a signature to its key, vanishes for one message in eight at least. `cryptography`
takes such keys, so they are refused here, in every encoding.
"""

import errno
import json
import os
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from congenial.errors import BundleError, reason_of

PrivateKey = Ed25519PrivateKey

_FIELD = 2**255 - 19
# Order 4 has y = 0, order 1 and 2 have y = 1 and -1, order 8 has this y and its negative.
_Y_OF_ORDER_8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_SMALL_ORDER = frozenset({0, 1, _FIELD - 1, _Y_OF_ORDER_8, _FIELD - _Y_OF_ORDER_8})


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
        with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as out:
            out.write(private)
        with public_path.open("xb") as out:
            out.write(public)
    except OSError as refused:
        raise BundleError(f"the key could not be written to {path}: {reason_of(refused)}; name a new file") from None
    return public_path.name


def sign(content: bytes, key: Ed25519PrivateKey) -> bytes:
    """Return the signature file of some bytes."""
    return _record(key.public_key(), key.sign(content))


def _record(public: Ed25519PublicKey, signature: bytes) -> bytes:
    record = {"algorithm": "Ed25519", "public_key": _raw(public).hex(), "signature": signature.hex()}
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
    if has_small_order(_raw(key)):
        raise BundleError(
            f"{path} holds a public key of small order, {_raw(key).hex()[:16]}..., in whose name anybody can sign"
            " anything; ask the publisher for a key that congenial keygen made"
        )
    return key


def has_small_order(point: bytes) -> bool:
    """Whether 32 bytes are a point of order 1, 2, 4 or 8, in any encoding.

    An encoding is y with the sign of x in the highest bit. The order depends on y alone, and y may be written as y + p.

    Examples
    --------
    >>> has_small_order(bytes(32)), has_small_order(Ed25519PrivateKey.generate().public_key().public_bytes_raw())
    (True, False)
    """
    return (int.from_bytes(point, "little") & (2**255 - 1)) % _FIELD in _SMALL_ORDER


def check_signature(content: bytes, signature: bytes, key: Ed25519PublicKey | None) -> str:
    """Return the public key that signed some bytes, as text; refuse a signature that does not fit, or another key."""
    try:
        record = json.loads(signature)
        public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(record["public_key"]))
        signed = bytes.fromhex(record["signature"])
        public.verify(signed, content)
    except (ValueError, KeyError, TypeError, RecursionError, InvalidSignature):
        raise BundleError("signature.json does not sign this manifest: one of the two was changed") from None
    if _record(public, signed) != signature:
        raise BundleError("signature.json was changed since it was written")
    # A small R is a nonce of zero, up to the cofactor: such a signature gives its private key away.
    if has_small_order(_raw(public)) or has_small_order(signed[:32]):
        raise BundleError(
            "signature.json has a key or a signature of small order: anybody can make such a signature, or it gives its"
            " private key away. congenial signs none like that; ask the publisher for the bundle again"
        )
    if key is not None and _raw(public) != _raw(key):
        raise BundleError("the bundle is signed by another key than the one given")
    return _raw(public).hex()


def _raw(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
