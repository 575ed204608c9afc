"""The style sheet of the report's page, for a phone, a desktop and a printer, in the browser's light or dark setting.

Cards of a chapter are in columns, so that a short one leaves no gap beside a tall one. Plots are at most 30rem wide,
where their text is as large as the page's.
"""

from __future__ import annotations

from typing import Final

STYLE: Final = """
:root { color-scheme: light dark; --paper: #fff; --card: #f6f7f9; --ink: #1b1f24; --muted: #57606a; --grid: #d5dae0;
  --s0: #0b62c4; --s1: #b3501b; --s2: #1a7f4b; --s3: #8a3ab0; --s4: #a3134f; --s5: #5b6b00; --s6: #6e7781;
  --bad: #b3261e }
@media (prefers-color-scheme: dark) { :root { --paper: #12161c; --card: #1b212a; --ink: #e8ebef; --muted: #a9b3bf;
  --grid: #38424e; --s0: #6cb0ff; --s1: #f2a065; --s2: #5fd39a; --s3: #cf9bf0; --s4: #ff8fb8; --s5: #c5d154;
  --s6: #9aa5b1; --bad: #ff9d94 } }
* { box-sizing: border-box }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif;
  overflow-wrap: anywhere }
main { max-width: 90rem; margin: 0 auto; padding: 1rem }
h1 { font-size: 1.5rem; line-height: 1.2; margin: .5rem 0 }
h2 { font-size: 1.25rem; margin: 2rem 0 .25rem }
h3 { font-size: 1rem; margin: 0 0 .5rem }
p { margin: .25rem 0 .75rem; max-width: 44rem }
.muted, figcaption, caption, dd small { color: var(--muted); font-size: .875rem; font-weight: 400 }
.bad { color: var(--bad) }
dl.tiles { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: .5rem; margin: 1rem 0 }
@media (min-width: 40rem) { dl.tiles { grid-template-columns: repeat(var(--half), minmax(0, 1fr)) } }
@media (min-width: 80rem) { dl.tiles { grid-template-columns: repeat(var(--tiles), minmax(0, 1fr)) } }
dl.tiles div { background: var(--card); border-radius: .5rem; padding: .5rem .75rem }
dt { color: var(--muted); font-size: .875rem }
dd { margin: 0; font-size: 1.25rem; font-weight: 600; font-variant-numeric: tabular-nums }
dd small { display: block }
.cards { columns: 24rem var(--columns); column-gap: .75rem }
figure { margin: 0 0 .75rem; background: var(--card); border-radius: .5rem; padding: .75rem; min-width: 0;
  break-inside: avoid }
svg { display: block; width: 100%; max-width: 30rem; height: auto; font-family: inherit }
table { width: 100%; border-collapse: collapse; font-size: .875rem; margin-top: .5rem }
caption { text-align: left; padding: .25rem 0 }
th, td { text-align: left; vertical-align: top; padding: .25rem .5rem .25rem 0; border-top: 1px solid var(--grid) }
th { font-weight: 600; overflow-wrap: normal }
td.text:not(:first-child) { overflow-wrap: break-word }
td.n, th.n { text-align: right; padding-right: 0; padding-left: .5rem; font-variant-numeric: tabular-nums;
  overflow-wrap: normal }
td.n { white-space: nowrap }
@media (min-width: 40.01rem) {
  td.n + td.text, th.n + th.text { padding-left: 1.5rem; white-space: nowrap }
}
@media (max-width: 40rem) {
  table.wide thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%) }
  table.wide tr { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 0 1rem;
    border-top: 1px solid var(--grid); padding: .25rem 0 }
  table.wide tr td { border: 0; padding: 0; display: flex; justify-content: space-between; gap: .5rem }
  table.wide td:first-child, table.wide td.text { grid-column: 1 / -1 }
  table.wide td.n:nth-child(even):last-child, table.wide td.n:nth-child(even):has(+ td.text),
  table.wide td.text + td.n:last-child { grid-column: 1 / -1 }
  table.wide td:first-child { font-weight: 600 }
  table.wide td:not(:first-child)::before { content: attr(data-label); color: var(--muted); white-space: normal;
    overflow-wrap: normal; text-align: left; font-weight: 400 }
}
nav ul { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .25rem 1rem }
a { color: var(--s0) }
code { font-size: .875em }
footer { margin: 2rem 0 1rem }
@media print { .cards { columns: 2 } }
"""
