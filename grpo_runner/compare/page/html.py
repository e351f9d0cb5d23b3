"""An Analysis as one page: the verdict first, then what it rests on. Nothing is fetched, and texts cannot run."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from ...files import write_atomic
from ..types import Analysis
from . import embed, fates, origin, tables
from .markup import safe, safe_line
from .stated import valued

# whatever a text might smuggle in: nothing is fetched. Vega compiles its expressions, hence unsafe-eval
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline' 'unsafe-eval'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)

MOST_KEYS = 4  # named in the head; the table of settings has all


def write(
    analysis: Analysis,
    path: Path,
    *,
    figures_dir: Path | None = None,
    command: str | None = None,
    beside: tuple[str, ...] = (),
) -> None:
    """The page. figures_dir: where PNG and SVG of each figure go as well, some seconds each. command: how it was made.

    beside: files in the page's own folder to link to. Raises MachineError where the disk refuses.
    """
    drawn = embed.specs(analysis)
    if figures_dir is not None:
        embed.save(drawn, figures_dir)
    links_to = None if figures_dir is None else embed.seen_from(path, figures_dir)
    write_atomic(path, render(analysis, drawn, links_to, command, beside).encode("utf-8"))


def save_figures(analysis: Analysis, folder: Path) -> None:
    """PNG and SVG of each figure, without a page. Raises MachineError where the disk refuses."""
    embed.save(embed.specs(analysis), folder)


def render(
    analysis: Analysis,
    drawn: embed.Specs | None = None,
    links_to: str | None = None,
    command: str | None = None,
    beside: tuple[str, ...] = (),
) -> str:
    """The page as text. drawn: the figures' specs by name, all that there are by default."""
    drawn = embed.specs(analysis) if drawn is None else drawn
    sections = {name: body for name, body in _sections(analysis, drawn, links_to, command, beside) if body}
    return "\n".join([*_top(analysis, sections), *_bottom(drawn)]) + "\n"


def _sections(
    analysis: Analysis, drawn: embed.Specs, links_to: str | None, command: str | None, beside: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    """Title and body of each part, in order; parts without a body are left out."""
    comparison = analysis.comparison
    several = len(comparison.arms) > 1
    yield "Verdict" if several else "Result", _verdict(analysis)
    yield "Warnings", _warnings(analysis)
    if several:
        yield "Arms", tables.arms(analysis)
        yield "Differences", f"{tables.effects(analysis)}\n{_method(analysis)}" if analysis.effects else ""
    yield "Figures", embed.figures(analysis, drawn, links_to)
    yield "Questions", _fates(analysis)
    yield "All measures", tables.measures(analysis)
    yield "Settings", _settings(analysis)
    yield "Runs", f"{tables.runs(analysis)}\n{origin.described(analysis, command, beside)}"


def _top(analysis: Analysis, sections: dict[str, str]) -> Iterator[str]:
    title = safe_line(_title(analysis))
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    yield f"<title>{title}</title>\n<style>\n{_asset('page.css')}</style>\n</head>\n<body>"
    yield '<a class="skip" href="#main">Skip to the content</a>'
    yield f'<header>\n<h1>{title}</h1>\n<p class="dim">{safe_line(_counted(analysis))}</p>'
    links = "".join(f'<li><a href="#{_id(name)}">{name}</a></li>' for name in sections)
    yield f'<nav aria-label="Parts of this page"><ul>{links}</ul></nav>\n</header>\n<main id="main" tabindex="-1">'
    for name, body in sections.items():
        place = _id(name)
        yield f'<section id="{place}" aria-labelledby="h-{place}">\n<h2 id="h-{place}">{name}</h2>\n{body}\n</section>'
    yield '</main>\n<p id="said" role="status" class="unseen"></p>'


def _bottom(drawn: embed.Specs) -> Iterator[str]:
    if any(drawn.values()):
        yield "<noscript><p>The figures need JavaScript; the tables do not.</p></noscript>"
    yield f"{embed.scripts(drawn)}<script>\n{_asset('page.js')}</script>\n</body>\n</html>"


def _title(analysis: Analysis) -> str:
    """Of a single run its own name, also where it is one of a sweep."""
    runs = [run for arm in analysis.comparison.arms for run in arm.runs.values()]
    return runs[0].name if len(runs) == 1 else analysis.comparison.title


def _id(name: str) -> str:
    return name.lower().replace(" ", "-")


def _counted(analysis: Analysis) -> str:
    arms = analysis.comparison.arms
    runs = sum(len(arm.runs) for arm in arms)
    if runs == 1:
        (run,) = arms[0].runs.values()
        return f"{run.method or arms[0].label} · seed {run.seed} · figures of {analysis.window}"
    counted = f"{runs} runs" + (f" · {len(arms)} arms" if len(arms) > 1 else "")
    named, more = analysis.comparison.by[:MOST_KEYS], len(analysis.comparison.by) - MOST_KEYS
    by = f" · compared by {', '.join(named)}" + (f" and {more} more" if more > 0 else "") if named else ""
    return f"{counted}{by} · window: {analysis.window}"


def _verdict(analysis: Analysis) -> str:
    said = "".join(f"<p>{safe(sentence)}</p>\n" for sentence in analysis.verdict)
    if len(analysis.comparison.arms) > 1:
        return f'<div class="verdict">{said}</div>'
    cards = "".join(_card(analysis, measure) for measure in valued(analysis)[:6])
    return f'{said}<dl class="cards">{cards}</dl>' if cards else f"{said}<p>No figure of the window is there yet.</p>"


def _card(analysis: Analysis, measure: tables.Measure) -> str:
    cell = tables.interval(analysis, analysis.comparison.baseline, measure)
    unit = f" <small>{safe(measure.unit)}</small>" if measure.unit else ""
    return f"<div><dt>{safe(measure.title)}</dt><dd>{safe(cell.text)}{unit}</dd></div>"


def _warnings(analysis: Analysis) -> str:
    found = "".join(f"<li>{safe(warning)}</li>\n" for warning in analysis.comparison.warnings)
    return f'<ul class="warnings">\n{found}</ul>' if found else ""


def _method(analysis: Analysis) -> str:
    from ..table import method

    return f'<p class="dim">{safe(method(analysis))}</p>'


def _fates(analysis: Analysis) -> str:
    found = fates.sections(analysis)
    if not found:
        return ""
    between = "between the arms" if len(analysis.comparison.arms) > 1 else "between the first and the last evaluation"
    said = (
        f"Held-out questions whose share of right answers differs most {between}, over the same seeds, with the greedy "
        "answer of one seed on each side. The largest of many differences are partly chance: they show what changed, "
        "not how much."
    )
    return f'<p class="dim">{said}</p>\n' + "\n".join(found)


def _settings(analysis: Analysis) -> str:
    differ, shared = tables.settings(analysis.comparison), tables.shared(analysis.comparison)
    if shared:
        name = "All settings" if not differ else "Settings that all runs share"
        shared = f"<details><summary>{name} ({len(analysis.comparison.shared)})</summary>\n{shared}</details>"
    return f"{differ}\n{shared}".strip()


def _asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")
