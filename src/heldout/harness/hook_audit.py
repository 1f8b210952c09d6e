"""The static audit of hook code: what it imports, names and reaches for is read before any of it runs."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator, Mapping, Sequence

from heldout.errors import HarnessError
from heldout.harness.hook_host import BUILTINS, MODULES
from heldout.harness.hook_surface import SOLVER_HOOKS, ExtraTool, Hook, HookSurface
from heldout.sandbox.syntax import syntax_tree

__all__ = ["HOOKS_BYTES", "HOOKS_FILE", "MOST_TOOLS", "audit_hooks"]

HOOKS_FILE = "harness_code/hooks.py"

HOOKS_BYTES = 32768

MOST_TOOLS = 4

_TOOL_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
_TOOL_DESCRIPTION_CHARACTERS = 500
_SHELL_WORD = re.compile(
    r"alias|bash|bg|break|builtin|case|cd|command|continue|declare|dirs|disown|do|done|echo|elif|else|enable|esac|eval|"
    r"exec|exit|export|false|fc|fg|fi|for|function|getopts|hash|help|history|if|in|jobs|kill|let|local|logout|popd|"
    r"printf|pushd|pwd|read|readonly|return|select|set|sh|shift|shopt|source|suspend|test|then|time|times|trap|true|"
    r"type|typeset|ulimit|umask|unalias|unset|until|wait|while"
)
"""Names that bash itself gives a meaning to."""

_UNSAFE: frozenset[str] = frozenset(
    (
        *("__builtins__", "__import__", "breakpoint", "compile", "delattr", "eval", "exec", "getattr", "globals"),
        *("open", "setattr"),
    )
)
"""Refused even where hook code gives these names a meaning of its own."""

_INNER_ATTRIBUTES: frozenset[str] = frozenset(
    (
        *("ag_code", "ag_frame", "cr_code", "cr_frame", "gi_code", "gi_frame", "gi_yieldfrom", "tb_frame", "tb_next"),
        *("f_back", "f_builtins", "f_code", "f_globals", "f_locals", "format", "format_map", "mro"),
    )
)
"""Attributes that lead out of an object. `format` follows attribute names written in a text; an f-string does not."""

_DUNDERS: frozenset[str] = frozenset(
    (
        *("__all__", "__call__", "__contains__", "__eq__", "__getitem__", "__hash__", "__init__", "__iter__"),
        *("__len__", "__lt__", "__name__", "__post_init__", "__repr__", "__str__"),
    )
)
"""Names with two underscores that may be defined or read as plain names; none may be an attribute."""

_SHOWN_FAULTS = 5


def audit_hooks(
    source: str, *, limit_bytes: int = HOOKS_BYTES, path: str = HOOKS_FILE, kinds: Mapping[str, Hook] = SOLVER_HOOKS
) -> HookSurface:
    """The hooks that a file defines, or `HarnessError` with the line of each fault. Nothing of it is run."""
    tree = _parsed(source, limit_bytes=limit_bytes, path=path)
    faults = [*sorted(set(_unsafe(tree))), *sorted(set(_unfit(tree, kinds)))]
    if faults:
        shown = "; ".join(f"line {line}: {fault}" for line, fault in faults[:_SHOWN_FAULTS])
        more = f"; and {len(faults) - _SHOWN_FAULTS} more" if len(faults) > _SHOWN_FAULTS else ""
        raise HarnessError(f"{path}, {shown}{more}")
    return _surface(source, tree, path=path, kinds=kinds)


Fault = tuple[int, str]
"""Line and words."""


def _parsed(source: str, *, limit_bytes: int, path: str) -> ast.Module:
    size = len(source.encode(errors="replace"))
    if size > limit_bytes:
        raise HarnessError(f"{path} has {size} bytes; at most {limit_bytes} are allowed")
    try:
        return syntax_tree(source, path)
    except SyntaxError as cause:
        raise HarnessError(f"{path}, line {cause.lineno or 1}: {cause.msg}") from cause
    except (ValueError, RecursionError, MemoryError) as cause:
        raise HarnessError(f"{path} cannot be parsed: {cause or type(cause).__name__}") from cause


def _unsafe(tree: ast.Module) -> Iterator[Fault]:
    bound = _bound_names(tree)
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        for fault in (*_import_faults(node), *_name_faults(node, bound)):
            yield line, fault


def _import_faults(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name not in MODULES or "." in alias.name:
                yield f"may not import {alias.name!r}; allowed are {', '.join(_importable())}"
    elif isinstance(node, ast.ImportFrom):
        module = "." * node.level + (node.module or "")
        if module not in MODULES:
            yield f"may not import from {module!r}; allowed are {', '.join(_importable())}"
            return
        for alias in node.names:
            if alias.name not in MODULES[module]:
                yield f"may not import {alias.name!r} from {module!r}; allowed are {', '.join(MODULES[module])}"


def _importable() -> list[str]:
    return sorted(name for name in MODULES if not name.startswith("_"))


def _name_faults(node: ast.AST, bound: frozenset[str]) -> Iterator[str]:
    if isinstance(node, ast.Attribute | ast.MatchClass):
        attributes = [node.attr] if isinstance(node, ast.Attribute) else node.kwd_attrs
        for name in attributes:
            if name.startswith("__") or name in _INNER_ATTRIBUTES:
                yield f"may not use the attribute {name!r}{_instead(name)}"
        return
    if isinstance(node, ast.AsyncFunctionDef | ast.AsyncFor | ast.AsyncWith | ast.Await):
        yield "hooks are plain functions, not async"
    for name in _identifiers(node):
        if name in _UNSAFE or (name.startswith("__") and name not in _DUNDERS):
            yield f"may not use {name!r}"
    if isinstance(node, ast.Name) and node.id not in bound and node.id not in BUILTINS and hasattr(builtins, node.id):
        yield f"may not use {node.id!r}"


def _instead(name: str) -> str:
    return "; write an f-string" if name in ("format", "format_map") else ""


def _identifiers(node: ast.AST) -> Iterator[str]:
    """Every name that a node holds, but for attributes and texts; imports have their own rule."""
    if isinstance(node, ast.Constant | ast.Import | ast.ImportFrom):
        return
    if isinstance(node, ast.alias):
        yield node.asname or ""
        return
    for _, value in ast.iter_fields(node):
        yield from (part for part in (value if isinstance(value, list) else [value]) if isinstance(part, str))


def _bound_names(tree: ast.Module) -> frozenset[str]:
    """Names to which the file itself gives a meaning somewhere."""
    bound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    bound |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    bound |= {node.name for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler | ast.MatchAs) and node.name}
    return frozenset(bound | {node.asname or node.name for node in ast.walk(tree) if isinstance(node, ast.alias)})


def _unfit(tree: ast.Module, kinds: Mapping[str, Hook]) -> Iterator[Fault]:
    """Hooks that could not be called, and extra tools that are none."""
    defined = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in kinds]
    for node in defined:
        wanted = kinds[node.name].parameters
        if not _takes(node.args, len(wanted)):
            yield node.lineno, f"{node.name} is called with ({', '.join(wanted)})"
    yield from ((place.lineno, f"{name} must be defined with def") for place, name in _assigned(tree) if name in kinds)
    if tree.body and not defined and not all(isinstance(node, ast.Expr) for node in tree.body):
        yield tree.body[0].lineno, f"defines no hook; there is {', '.join(kinds)}"
    yield from _tool_faults(tree, any(node.name == "run_tool" for node in defined), offered="run_tool" in kinds)


def _takes(args: ast.arguments, count: int) -> bool:
    places = len(args.posonlyargs) + len(args.args)
    if any(default is None for default in args.kw_defaults):
        return False
    return places - len(args.defaults) <= count and (count <= places or args.vararg is not None)


def _assigned(tree: ast.Module) -> Iterator[tuple[ast.Assign | ast.AnnAssign, str]]:
    """The assignments of a module's own level, with each name."""
    for node in tree.body:
        targets: Sequence[ast.expr] = ()
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign):
            targets = [node.target]
        for target in targets:
            if isinstance(target, ast.Name) and isinstance(node, ast.Assign | ast.AnnAssign):
                yield node, target.id


def _tool_faults(tree: ast.Module, runs: bool, *, offered: bool) -> Iterator[Fault]:
    found = [node for node, name in _assigned(tree) if name == "EXTRA_TOOLS"]
    if runs and not found:
        yield 1, "run_tool needs EXTRA_TOOLS, a list of mappings with name and description"
    for node in found:
        if not offered:
            yield node.lineno, "EXTRA_TOOLS is not offered here"
        elif not runs:
            yield node.lineno, "EXTRA_TOOLS needs the function run_tool(name, argument)"
        elif len(found) > 1:
            yield node.lineno, "EXTRA_TOOLS is set more than once"
        else:
            fault = _list_fault(_literal(node.value))
            if fault:
                yield node.lineno, fault


def _literal(node: ast.expr | None) -> object:
    if node is None:
        return None
    try:
        found: object = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None
    return found


def _list_fault(tools: object) -> str | None:
    if not isinstance(tools, list | tuple) or not 1 <= len(tools) <= MOST_TOOLS:
        return f"EXTRA_TOOLS must be a plain list of 1 to {MOST_TOOLS} mappings with name and description"
    for tool in tools:
        if not isinstance(tool, dict) or set(tool) != {"name", "description"}:
            return "each of EXTRA_TOOLS has exactly the keys name and description"
        name, description = tool["name"], tool["description"]
        if not isinstance(name, str) or not _TOOL_NAME.fullmatch(name) or _SHELL_WORD.fullmatch(name):
            return f"{name!r} cannot be the name of an extra tool: small letters, digits and _, no word of bash"
        if not isinstance(description, str) or not 1 <= len(description.strip()) <= _TOOL_DESCRIPTION_CHARACTERS:
            return f"the description of {name} must have 1 to {_TOOL_DESCRIPTION_CHARACTERS} characters"
    if len({tool["name"] for tool in tools}) < len(tools):
        return "two of EXTRA_TOOLS have the same name"
    return None


def _surface(source: str, tree: ast.Module, *, path: str, kinds: Mapping[str, Hook]) -> HookSurface:
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    listed = [_literal(node.value) for node, name in _assigned(tree) if name == "EXTRA_TOOLS"]
    tools = [tool for found in listed if isinstance(found, list | tuple) for tool in found]
    return HookSurface(
        source=source,
        path=path,
        kinds=kinds,
        defined=frozenset(names & set(kinds)),
        tools=tuple(ExtraTool(tool["name"], " ".join(tool["description"].split())) for tool in tools),
    )
