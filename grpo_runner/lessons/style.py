"""The style sheet of a step's page: readable in light and dark, and where colours are printed."""

from __future__ import annotations

from .step_table import LEVELS

_SHADES = "".join(
    f".{name}{size}{{background:rgb(var(--{colour})/{0.12 + 0.88 * size / LEVELS:.2f})}}\n"
    for name, colour in (("u", "up"), ("d", "down"))
    for size in range(1, LEVELS + 1)
)
CSS = f"""\
:root{{color-scheme:light dark;
--page:#fff;--ink:#15181d;--dim:#5b6470;--warn:#b45309;--line:#d8dde3;--up:74 144 255;--down:255 146 48}}
@media(prefers-color-scheme:dark){{
:root{{--page:#14171b;--ink:#eceff2;--dim:#9aa4b0;--warn:#f59e0b;--line:#343a42;--up:32 96 214;--down:168 78 0}}}}
body{{margin:0 auto;max-width:72rem;padding:1.5rem;background:var(--page);color:var(--ink);
font:15px/1.55 system-ui,sans-serif;print-color-adjust:exact;-webkit-print-color-adjust:exact}}
h1{{font-size:1.3rem;margin:0 0 .5rem}}
h2{{font-size:1.05rem;margin:0}}
h3{{font-size:.8rem;font-weight:400;color:var(--dim);margin:1rem 0 .15rem}}
p{{margin:.3rem 0;overflow-wrap:anywhere}}
code,.a,.q{{font-family:ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace;font-size:.87rem}}
code{{color:var(--dim)}}
section{{border-top:1px solid var(--line);margin-top:1.6rem;padding-top:1rem}}
.dim{{color:var(--dim);font-size:.87rem}}
.note b{{color:var(--warn)}}
.q,.a{{white-space:pre-wrap;direction:ltr}}
.a{{line-height:1.8}}
.a span{{unicode-bidi:isolate;padding:.15em 0;box-shadow:inset -1px 0 var(--page)}}
.c{{text-decoration:underline 2px;text-underline-offset:3px}}
.n::before{{content:"↵";opacity:.5}}
.e::before{{content:"∅";opacity:.5}}
.k{{font-family:ui-monospace,monospace;font-size:.8rem;padding:.15em .4em;margin:0 .1em}}
.wide{{overflow-x:auto}}
table{{border-collapse:collapse;margin:.7rem 0;font-size:.8rem;font-variant-numeric:tabular-nums}}
th,td{{text-align:right;padding:.12rem .4rem}}
td{{white-space:nowrap}}
th{{color:var(--dim);font-weight:400;line-height:1.3;vertical-align:bottom}}
.t th{{text-align:center;color:var(--ink)}}
.b{{border-left:1px solid var(--line)}}
.x{{color:var(--dim)}}
{_SHADES}"""
