"""Mutants of a Python module: every place where one small change of the source would change what it does."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "!=", ast.NotEq: "==", ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "//", ast.FloorDiv: "*", ast.BitAnd: "|", ast.BitOr: "&",
}  # fmt: skip
SILENT = {"log", "debug", "info", "warning", "error"}
"""Calls of these names write log lines; what they say is no fault of behaviour."""


class Mutant(NamedTuple):
    """One change: the text from `start` to `end` (offsets in the source) becomes `text`."""

    line: int
    start: int
    end: int
    text: str
    what: str

    def apply(self, source: str) -> str:
        """Return the mutated source."""
        return source[: self.start] + self.text + source[self.end :]


def mutants(source: str) -> Iterator[Mutant]:
    """Yield the mutants of a module in the order of its text; each of them compiles."""
    tree = ast.parse(source)
    finder = Finder(source)
    finder.visit(tree)
    for mutant in sorted(finder.found):
        try:
            compile(mutant.apply(source), "mutant", "exec")
        except SyntaxError:
            continue
        yield mutant


class Finder(ast.NodeVisitor):
    """Collects mutants; leaves out what only describes: annotations, docstrings, asserts, slots, log lines."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.found: list[Mutant] = []
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def _offset(self, line: int, column: int) -> int:
        start = self._starts[line - 1]
        text = self.source[start : self._starts[line]]
        return start + len(text.encode()[:column].decode())

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._offset(node.lineno, node.col_offset), self._offset(node.end_lineno, node.end_col_offset)

    def _text(self, node: ast.expr | ast.stmt) -> str:
        start, end = self._span(node)
        return self.source[start:end]

    def _add(self, node: ast.expr | ast.stmt, text: str, what: str) -> None:
        start, end = self._span(node)
        self.found.append(Mutant(node.lineno, start, end, text, what))

    def _operator(self, left: ast.expr, right: ast.expr, text: str, what: str) -> None:
        start, end = self._span(left)[1], self._span(right)[0]
        between = self.source[start:end]
        opening = between[len(between.rstrip("( \n")) :]
        closing = between[: len(between) - len(between.lstrip(") \n"))]
        self.found.append(Mutant(left.lineno, start, end, f"{closing.rstrip()} {text} {opening.lstrip()}", what))

    # -- left out

    def visit_Assert(self, node: ast.Assert) -> None: ...
    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_If(self, node: ast.If) -> None:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return
        self._add(node.test, f"not ({self._text(node.test)})", "negate the condition")
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for default in (*node.args.defaults, *(each for each in node.args.kw_defaults if each is not None)):
            self.visit(default)
        for statement in node.body:
            self.visit(statement)

    visit_AsyncFunctionDef = visit_FunctionDef

    # -- changed

    def visit_Compare(self, node: ast.Compare) -> None:
        left = node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            self._operator(left, right, COMPARISONS[type(operator)], "another comparison")
            left = right
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        text = "or" if isinstance(node.op, ast.And) else "and"
        self._operator(node.values[0], node.values[1], text, "and/or")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in ARITHMETIC:
            self._operator(node.left, node.right, ARITHMETIC[type(node.op)], "another operator")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._add(node, f"({self._text(node.operand)})", "drop the not")
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._add(node.test, f"not ({self._text(node.test)})", "negate the condition")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._add(node, str(not node.value), "the other truth value")
        elif isinstance(node.value, int):
            self._add(node, str(node.value + 1), "a number one larger")

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._add(node, "pass", "drop the assignment")
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return  # a docstring
        if isinstance(node.value, ast.Call):
            if SILENT & set(self._text(node.value.func).split(".")):
                return
            self._add(node, "pass", "drop the call")
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and not isinstance(node.value, ast.Constant):
            self._add(node, "return None", "return nothing")
        self.generic_visit(node)
