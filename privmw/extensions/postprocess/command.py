"""`privmw postprocess`: from noisy counts to fitted ones, synthetic records, a certificate and a report.

It uses released answers and public rows only, so it spends nothing.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from privmw.cli.console import Console
from privmw.cli.folder import new_folder
from privmw.cli.options import (
    SettingKinds,
    add_bins,
    add_format,
    add_settings,
    add_syntax,
    add_title,
    check_files,
    file_format,
    number,
    positive,
    read_domain,
    settings_of,
    whole,
)
from privmw.cli.outputs import file_name
from privmw.cli.refusal import RefusalError
from privmw.data.constraints import Constraints
from privmw.data.domain import Domain
from privmw.data.memory import available_memory
from privmw.data.support import Support
from privmw.extensions import postprocess
from privmw.extensions.postprocess import Fit
from privmw.extensions.postprocess.microdata import MOST_SYNTHETIC_RECORDS
from privmw.extensions.postprocess.noisy_file import write_fitted
from privmw.extensions.postprocess.problem import MOST_UNKNOWNS
from privmw.extensions.postprocess.report import certificate_in_words, write_fit_report
from privmw.io.files import about, files_of
from privmw.io.scan import scan_table

FITS: dict[str, Callable[..., Fit]] = {
    "ols": postprocess.ols,
    "nnls": postprocess.nnls,
    "max-fit": postprocess.max_fit,
    "sequential": postprocess.sequential,
    "reweight": postprocess.reweight,
}
FIT_SETTINGS: SettingKinds = {
    "downweight": ("counts", "std"),
    "confidence": number,
    "priorities": str,
    "slack": number,
    "rounding": ("controlled", "randomised"),
}
# of the settings of one method
METHOD_OF = {
    "downweight": "reweight",
    "confidence": "reweight",
    "priorities": "sequential",
    "slack": "max-fit",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "measurements", metavar="MEASUREMENTS", help="the noisy answers: parquet or csv, one row per cell"
    )
    parser.add_argument("--domain", required=True, metavar="FILE", help="the domain, a JSON file")
    parser.add_argument("--method", required=True, choices=tuple(FITS), help="how to fit the answers")
    parser.add_argument(
        "--public", metavar="FILE", help="re-weight the rows of this file (default: every row of the domain)"
    )
    parser.add_argument(
        "--constraints", metavar="FILE", help="combinations that no record can have, a JSON file"
    )
    add_settings(
        parser,
        FIT_SETTINGS,
        "may be repeated. reweight: downweight=counts or std, by the largest noise in "
        "counts (default) or deviations, and confidence=0.99, that an answer is not low; max-fit: "
        'slack=0.01, standard deviations beyond the bound; sequential: priorities="total;age;sex;age,sex" '
        'fits these in turn, "age+sex" two at once; every method: rounding=controlled or randomised, of '
        "weights to whole records, as close as possible (default) or random and unbiased",
    )
    parser.add_argument(
        "--records",
        type=positive,
        metavar="N",
        help="the number of records, where it is public: the fit keeps it exactly",
    )
    add_format(parser, "fitted counts and synthetic records")
    add_bins(parser, "label")
    add_title(parser)
    add_syntax(parser)
    parser.add_argument("--seed", type=whole, help="makes the random draws repeatable")
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER", help="must not exist yet")


def run(options: argparse.Namespace, console: Console) -> None:
    """Read the noisy answers, fit, write."""
    check_files(options)
    domain = read_domain(options)
    rounding = settings_of(options, FIT_SETTINGS).get("rounding", "controlled")
    chosen = settings(options, domain)
    with new_folder(options.output) as folder:
        with console.step(f"reading {options.measurements}"):
            measured = postprocess.read_noisy_marginals(options.measurements, domain)
            for_release = all(about(file).get("for_release", True) for file in files_of(options.measurements))
        support = read_support(options, domain, console)
        with console.step(f"fitting with {options.method}"):
            fit = FITS[options.method](measured, support, **chosen)
        facts = {"output": options.output, **certificate(fit), "for_release": for_release}
        with console.step("writing"):
            facts["records"] = write_fit(fit, folder, options, for_release, rounding)
        facts["files"] = sorted(file.name for file in folder.iterdir())
    lines = [*certificate_in_words(fit)]
    if facts["records"] is None:
        lines.append(f"No synthetic records: {why_no_records(fit)}.")
    if not for_release:
        lines.append("NOT FOR RELEASE: the noise of these answers was seeded.")
    files = "\n".join(f"  {options.output.rstrip('/')}/{name}" for name in facts["files"])
    console.result(facts, "\n".join([*lines, f"\nWritten:\n{files}"]))


def settings(options: argparse.Namespace, domain: Domain) -> dict[str, Any]:
    """The arguments of the method; a setting of another method is refused."""
    for text in options.setting or ():
        method = METHOD_OF.get(text.partition("=")[0], options.method)
        if method != options.method:
            raise RefusalError(f"--setting ({text}) must come with --method {method}, not {options.method}")
    arguments = settings_of(options, FIT_SETTINGS)
    arguments.pop("rounding", None)
    if options.bins == "draw" and options.public is None:
        raise RefusalError("--bins (draw) must come with --public, from which values are drawn")
    if "priorities" in arguments:
        arguments["priorities"] = read_priorities(arguments["priorities"], domain)
    if options.records is not None:
        arguments["total"] = options.records
    return arguments


def read_priorities(text: str, domain: Domain) -> list[list[tuple[str, ...]]]:
    """Parse groups of marginals such as "total;age+sex;age,sex"; an attribute named total takes precedence.

    >>> read_priorities("total; age+sex; age,sex", Domain({"age": 3, "sex": 2}))
    [[()], [('age',), ('sex',)], [('age', 'sex')]]
    """

    def marginal(words: str) -> tuple[str, ...]:
        if words.strip() == "total" and "total" not in domain:
            return ()
        return tuple(domain[name.strip()].name for name in words.split(","))

    try:
        return [[marginal(words) for words in group.split("+")] for group in text.split(";")]
    except ValueError as error:
        raise RefusalError(f"--setting priorities: {error}") from None


def read_support(options: argparse.Namespace, domain: Domain, console: Console) -> Support | None:
    """Make the support of the rows to weigh; None stands for every row of the domain."""
    constraints = Constraints.read(options.constraints, domain) if options.constraints else None
    if options.public is not None:
        with console.step(f"reading {options.public}"):
            public = scan_table(options.public, domain, private=False, on_note=console.note)
            return Support.from_table(public, constraints=constraints)
    if domain.size > MOST_UNKNOWNS:
        raise RefusalError(
            f"the domain ({domain.size:.3g} rows) must have at most 2^28 rows to weigh them all",
            "give --public, a file of the rows to weigh",
        )
    return None if constraints is None else Support.full(domain, constraints=constraints)


def write_fit(
    fit: Fit,
    folder: Path,
    options: argparse.Namespace,
    for_release: bool,
    rounding: Literal["controlled", "randomised"],
) -> int | None:
    """Write every file of a fit to an unfinished folder; returns the number of synthetic records."""
    facts = {**certificate(fit), "for_release": for_release}
    text = json.dumps(facts, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    (folder / "certificate.json").write_text(text, encoding="utf-8")
    form, raw = file_format(options.format)
    fitted, synthetic = (
        folder / file_name(stem, form, for_release=for_release) for stem in ("fitted", "synthetic")
    )
    write_fitted(fit, fitted, for_release=for_release, raw=raw)
    beside = [fitted.name, synthetic.name, "certificate.json"]
    page = folder / "report.html"
    write_fit_report(page, fit, for_release=for_release, title=options.title, files=beside)
    if why_no_records(fit):
        return None
    exact = [()] if options.records is not None else []
    records = postprocess.to_microdata(fit, rounding, exact=exact, seed=options.seed)
    records = records if for_release else records.not_for_release()
    drawn = options.bins == "draw"
    public = options.public if drawn else None
    records.write(synthetic, bins=options.bins, public=public, seed=options.seed, raw=raw)
    return records.n


def why_no_records(fit: Fit) -> str:
    """Why synthetic records cannot be made; empty if they can."""
    if fit.weights.min() < 0:
        return "some weights are negative, as ols allows"
    total = float(fit.weights.sum())
    if total < 0.5:
        return "the weights sum to less than half a record"
    needed = total * (8 + len(fit.domain))  # a position and its codes
    if total >= MOST_SYNTHETIC_RECORDS or needed > available_memory():
        return f"{total:.3g} records do not fit in memory"
    return ""


def certificate(fit: Fit) -> dict[str, Any]:
    """The certificate as JSON values."""
    return {
        **asdict(fit.certificate),
        "rows": len(fit.weights),
        "total": float(fit.weights.sum()),
        "marginals": len(fit.measured),
    }
