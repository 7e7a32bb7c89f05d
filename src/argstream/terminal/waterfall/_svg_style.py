"""How a waterfall looks as a picture: colours for light and dark, shapes that come again."""

from typing import Final

__all__ = ["SHAPES", "STYLE"]

_LIGHT: Final = {
    "paper": "#ffffff",
    "frame": "#d0d7de",
    "ink": "#1f2328",
    "pale": "#656d76",
    "grid": "#eaeef2",
    "name": "#1f2328",
    "line": "#8c959f",
    "solid": "#0969da",
    "running": "#2da44e",
    "waiting": "#bf8700",
    "silence": "#afb8c1",
    "good": "#1a7f37",
    "bad": "#cf222e",
    "open": "#bf8700",
}
_DARK: Final = {
    "paper": "#0d1117",
    "frame": "#30363d",
    "ink": "#e6edf3",
    "pale": "#8b949e",
    "grid": "#1c2128",
    "name": "#e6edf3",
    "line": "#6e7681",
    "solid": "#4493f8",
    "running": "#3fb950",
    "waiting": "#d29922",
    "silence": "#57606a",
    "good": "#3fb950",
    "bad": "#f85149",
    "open": "#d29922",
}


def _colours(colours: dict[str, str]) -> str:
    """Write what has these colours. No variables: not every viewer knows them."""
    rules = [
        f".paper{{fill:{colours['paper']};stroke:{colours['frame']}}}",
        f".ink{{fill:{colours['ink']}}}",
        f".pale{{fill:{colours['pale']}}}",
        f".name{{fill:{colours['name']}}}",
        f".grid{{stroke:{colours['grid']}}}",
        f".rule{{stroke:{colours['frame']}}}",
        f".gap{{fill:{colours['paper']};stroke:{colours['line']}}}",
        f".line{{stroke:{colours['line']}}}",
        f".waiting{{stroke:{colours['waiting']}}}",
        f".hatch{{stroke:{colours['silence']}}}",
        f".silence{{stroke:{colours['silence']}}}",
        f".plate{{fill:{colours['paper']}}}",
        f".sign{{stroke:{colours['paper']}}}",
        *(f".{kind}{{fill:{colours[kind]}}}" for kind in ("solid", "running")),
        *(f".{kind}{{fill:{colours[kind]}}}" for kind in ("good", "bad", "open")),
    ]
    return "\n".join(rules)


STYLE: Final = f"""
text{{font:12px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif}}
.code{{font-family:ui-monospace,"SF Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace}}
.number{{font-variant-numeric:tabular-nums;text-anchor:end}}
.small{{font-size:11px}}
.heading{{font-size:15px;font-weight:600}}
.name{{font-weight:600}}
.conclusion{{font-size:13px;font-weight:600}}
.middle{{text-anchor:middle}}
.end{{text-anchor:end}}
.line{{stroke-width:2;stroke-linecap:round}}
.waiting{{stroke-width:3;stroke-linecap:round;stroke-dasharray:0.1 6}}
.silence{{fill:url(#waterfall-silence);stroke-width:1}}
.hatch{{stroke-width:1.2}}
.sign{{fill:none;stroke-width:1.6;stroke-linecap:round;stroke-linejoin:round}}
{_colours(_LIGHT)}
@media (prefers-color-scheme:dark){{
{_colours(_DARK)}
}}
"""

SHAPES: Final = """
<pattern id="waterfall-silence" width="6" height="6" patternUnits="userSpaceOnUse"
 patternTransform="rotate(45)"><line class="hatch" x1="0" y1="0" x2="0" y2="6"/></pattern>
<g id="waterfall-yes"><circle class="good" r="6.5"/><path class="sign" d="M-2.8 0.2l2 2 3.6-4"/></g>
<g id="waterfall-no"><circle class="bad" r="6.5"/><path class="sign"
 d="M-2.3-2.3l4.6 4.6M2.3-2.3l-4.6 4.6"/></g>
<g id="waterfall-open"><circle class="open" r="6.5"/>
<path class="sign" d="M-2.8 0h0M0 0h0M2.8 0h0"/></g>
"""
