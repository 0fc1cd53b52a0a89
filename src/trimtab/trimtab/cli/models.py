"""`trimtab models`: list, show, verify, sign and pull model bundles."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.errors import TrimtabError

if TYPE_CHECKING:
    from trimtab.arm import Arm
    from trimtab.residual.manifest import Manifest

DESCRIPTION = """\
Model bundles: folders models/<arm>/<name>/<version> with model.onnx and manifest.yaml. A bundle says which arm, joints,
rate and units it is for, which torque it may ask for, and what it answers to stored probes. What does not fit is
refused."""

EXAMPLES = """\
examples:
  trimtab models list
  trimtab models show mlp --arm wam               the newest version of wam's `mlp`
  trimtab models verify models/ur5e/mlp/1         every check, a line each
  trimtab models keygen my.key                    makes my.key (keep it secret) and my.key.pub
  trimtab models sign mlp/1 --key my.key
  trimtab models verify mlp/1 --keys my.key.pub
  trimtab models pull s3://bucket/ur5e/mlp/2      any address that fsspec can open"""

DEFAULT_ARM = "ur5e"
BUNDLE = "name, name/version, or a bundle's folder"
KEYS = "file of trusted public keys, one per line; the bundle must be signed with one of them"


def register(subparsers: Any) -> None:
    """Adds `trimtab models`."""
    parser = subparsers.add_parser("models", help="list, check, sign and pull model bundles", description=DESCRIPTION)
    parser.epilog = EXAMPLES
    kinds = parser.add_subparsers(title="what to do", metavar="WHAT", required=True)

    listing = kinds.add_parser("list", help="the bundles that are installed", description="Lists the installed bundles.")
    listing.add_argument("--arm", help="only this arm's (default: all)")
    listing.set_defaults(command=_list)

    show = kinds.add_parser("show", help="what a bundle's manifest says", description="Prints what a manifest says.")
    verify = kinds.add_parser(
        "verify",
        help="run every check, a line each",
        description="Runs every check that a controller makes before it uses a bundle: files, signature, hash, arm, graph, "
        "probes and speed on this machine. Exit code 1 when one refuses.",
    )
    sign = kinds.add_parser("sign", help="sign a bundle", description="Signs a bundle with a private key (ed25519).")
    for one in (show, verify, sign):
        one.add_argument("bundle", metavar="BUNDLE", help=BUNDLE)
        one.add_argument("--arm", help="name or path of the arm's contract (default: ur5e for a name, else the bundle's)")
    show.set_defaults(command=_show)
    verify.add_argument("--keys", type=Path, metavar="FILE", help=KEYS)
    verify.set_defaults(command=_verify)
    sign.add_argument("--key", type=Path, metavar="FILE", required=True, help="private key, made by `trimtab models keygen`")
    sign.set_defaults(command=_sign)

    keygen = kinds.add_parser("keygen", help="make a key pair", description="Makes a private key FILE and FILE.pub.")
    keygen.add_argument("file", type=Path, metavar="FILE", help="where the private key goes")
    keygen.set_defaults(command=_keygen)

    pull = kinds.add_parser(
        "pull",
        help="fetch a bundle from a store",
        description="Downloads a bundle, checks it, and only then puts it into place. Nothing is overwritten.",
    )
    pull.add_argument("url", metavar="URL", help="a folder with model.onnx and manifest.yaml: file, memory, http, s3, ...")
    pull.add_argument("--arm", help="the arm that it must be for (default: the one that the bundle names)")
    pull.add_argument("--keys", type=Path, metavar="FILE", help=KEYS)
    pull.add_argument("--root", type=Path, metavar="DIR", help="where bundles go (default: the installed models folder)")
    pull.set_defaults(command=_pull)


def _list(arguments: argparse.Namespace) -> int:
    from trimtab.residual.bundle import find_bundles
    from trimtab.residual.manifest import MANIFEST, load_manifest
    from trimtab.share import share_directory

    root = share_directory() / "models"
    folders = find_bundles(root if arguments.arm is None else root / arguments.arm)
    if not folders:
        print(f"no bundles{f' for {arguments.arm}' if arguments.arm else ''}; train one or `trimtab models pull` one")
        return 0
    print(f"{'arm':<20} {'bundle':<20} {'family':<8} {'rate':>8}  signed  on top of")
    broken = 0
    for folder in folders:
        try:
            found = load_manifest(folder / MANIFEST)
            signed = "yes" if found.signature is not None else "no"
            bundle = f"{found.name}/{found.version}"
            print(f"{found.arm:<20} {bundle:<20} {found.family:<8} {found.rate:>5.0f} Hz  {signed:<6}  {found.controller}")
        except TrimtabError as error:
            print(f"{folder.relative_to(root)}: refused: {error}")
            broken = 1
    return broken


def _find(arguments: argparse.Namespace) -> Path:
    from trimtab.arm import load_arm
    from trimtab.residual.bundle import find_bundle

    return find_bundle(arguments.bundle, DEFAULT_ARM if arguments.arm is None else load_arm(arguments.arm).name)


def _show(arguments: argparse.Namespace) -> int:
    from trimtab.residual.manifest import MANIFEST, load_manifest

    folder = _find(arguments)
    found = load_manifest(folder / MANIFEST)
    rows = {
        "bundle": f"{found.name}/{found.version} ({found.family}) for {found.arm} at {found.rate:g} Hz",
        "folder": str(folder),
        "on top of": f"{found.controller}; the {found.gravity} compensates gravity",
        "inputs": ", ".join(one.quantity for one in found.inputs),
        "state": ", ".join(f"{one.input} {list(one.shape)}" for one in found.states) or "none",
        "bounds": ", ".join(f"{joint} {limit:g} Nm" for joint, limit in found.bounds.items()),
        "confidence": _confidence(found),
        "probes": str(len(found.probes)),
        "trained on": _free(found.trained_on),
        "scores": _free(found.scores),
        "sha256": found.sha256,
        "signed by": found.signature.key if found.signature is not None else "nobody",
    }
    for title, text in rows.items():
        print(f"{title + ':':<12} {text}")
    return 0


def _confidence(found: "Manifest") -> str:
    limits = found.confidence
    text = f"0 beyond {limits.margin:g} of the training range outside of it"
    return text if limits.trusted is None else f"{text}; distance {limits.trusted:g} to {limits.unknown:g}"


def _free(mapping: dict[str, Any]) -> str:
    return "; ".join(f"{key}: {value}" for key, value in mapping.items()) or "nothing said"


def _verify(arguments: argparse.Namespace) -> int:
    from trimtab.arm import load_arm
    from trimtab.residual.bundle import check_fit, check_hash, check_place
    from trimtab.residual.inspection import MAX_MODEL, inspect_model
    from trimtab.residual.manifest import MANIFEST, MODEL, load_manifest
    from trimtab.residual.reading import read_file
    from trimtab.residual.signing import check_signature

    folder = _find(arguments)
    try:
        manifest = load_manifest(folder / MANIFEST)
        model = read_file(folder / MODEL, MAX_MODEL)
    except TrimtabError as error:
        print(f"refused  files: {error}")
        return 1
    print("ok       files")
    arms: list[Arm] = []

    def known_arm() -> "Arm":
        if not arms:
            arms.append(load_arm(arguments.arm or manifest.arm))
        return arms[0]

    checks: dict[str, Callable[[], object]] = {
        "folder": lambda: check_place(manifest, folder),
        "hash": lambda: check_hash(manifest, model, folder),
        "arm": lambda: check_fit(manifest, known_arm(), folder),
        "graph": lambda: inspect_model(model, manifest, folder / MODEL),
    }
    if arguments.keys is not None:
        checks = {"signature": lambda: check_signature(manifest, arguments.keys, folder)} | checks
    refused = [name for name, check in checks.items() if not _passes(name, check)]
    if refused:
        print("not run  probes and speed: mend the above first")
        return 1
    return 0 if _passes("probes and speed", lambda: _try_out(folder, known_arm(), manifest, model)) else 1


def _try_out(folder: Path, arm: "Arm", manifest: "Manifest", model: bytes) -> None:
    from trimtab.residual.bundle import check_bundle
    from trimtab.residual.runtime import ResidualModel

    ResidualModel(check_bundle(folder, manifest, model, arm), arm)


def _passes(name: str, check: Callable[[], object]) -> bool:
    try:
        check()
    except TrimtabError as error:
        print(f"refused  {name}: {error}")
        return False
    print(f"ok       {name}")
    return True


def _sign(arguments: argparse.Namespace) -> int:
    from trimtab.residual.bundle import check_hash, read_bundle
    from trimtab.residual.signing import sign_bundle

    folder = _find(arguments)
    manifest, model = read_bundle(folder)
    check_hash(manifest, model, folder)  # nobody should vouch for a damaged bundle
    signed = sign_bundle(folder, arguments.key)
    assert signed.signature is not None
    print(f"{folder}: signed with the key {signed.signature.key}")
    return 0


def _keygen(arguments: argparse.Namespace) -> int:
    from trimtab.residual.signing import make_key

    public = make_key(arguments.file)
    print(f"{arguments.file}: private key, keep it secret\n{arguments.file}.pub: public key {public}")
    return 0


def _pull(arguments: argparse.Namespace) -> int:
    from trimtab.residual.store import fetch_bundle
    from trimtab.share import share_directory

    root = arguments.root if arguments.root is not None else share_directory() / "models"
    bundle = fetch_bundle(arguments.url, arguments.arm, root, arguments.keys)
    print(f"{bundle.folder}: {bundle.manifest.name}/{bundle.manifest.version} for {bundle.manifest.arm}")
    return 0
