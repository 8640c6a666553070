"""Completion in shells: the scripts, and the words that each shell inserts.

Names come from clients, so a shell must insert them quoted: a queue may be named `$(reboot)`. zsh and fish quote by
themselves. bash inserts what it is given, and breaks words at characters such as = and : too.
"""

from __future__ import annotations

import os
import re
from typing import Any, Final

from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    split_arg_string,
)

VARIABLE: Final = "_PENSTOCK_COMPLETE"
"""Environment variable that the completion scripts set."""
END: Final = "\x01"
"""Mark of the cursor in a line: it stands in the word that is being completed."""
SAFE: Final = re.compile(r"([^\w@%+=:,./-])")
"""Characters that bash reads as they are; each other one is escaped. Letters of all scripts are safe."""
ESCAPED: Final = r"\\\1"
BREAKS: Final = "=:@<>|&;("
"""Characters at which bash breaks words, besides spaces and quotes."""
BASH: Final = """\
%(complete_func)s() {
    local response type value
    response=$(env COMP_LINE="${COMP_LINE:0:$COMP_POINT}" COMP_WORD="${COMP_WORDS[COMP_CWORD]}" \\
        %(complete_var)s=bash_complete $1)
    while IFS=$'\\t' read -r type value; do
        if [[ $type == 'dir' ]]; then
            COMPREPLY=()
            compopt -o dirnames
        elif [[ $type == 'file' ]]; then
            COMPREPLY=()
            compopt -o default
        elif [[ $type == 'plain' ]]; then
            COMPREPLY+=("$value")
            [[ $value == *= ]] && compopt -o nospace
        fi
    done <<< "$response"
    return 0
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""
ZSH: Final = """\
#compdef %(prog_name)s

%(complete_func)s() {
    local -a completions unfinished described response
    (( ! $+commands[%(prog_name)s] )) && return 1
    response=("${(@f)$(env COMP_WORDS="${words[*]}" COMP_CWORD=$((CURRENT-1)) \\
        %(complete_var)s=zsh_complete %(prog_name)s)}")
    for type key descr in ${response}; do
        if [[ "$type" == "plain" && "$key" == *= ]]; then
            unfinished+=("$key")
        elif [[ "$type" == "plain" && "$descr" == "_" ]]; then
            completions+=("$key")
        elif [[ "$type" == "plain" ]]; then
            described+=("$key":"$descr")
        elif [[ "$type" == "dir" ]]; then
            _path_files -/
        elif [[ "$type" == "file" ]]; then
            _path_files -f
        fi
    done
    [ -n "$described" ] && _describe -V unsorted described -U
    [ -n "$completions" ] && compadd -U -V unsorted -a completions
    [ -n "$unfinished" ] && compadd -U -S '' -V unfinished -a unfinished
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    %(complete_func)s "$@"
else
    compdef %(complete_func)s %(prog_name)s
fi
"""
FISH: Final = """\
function %(complete_func)s
    for line in (env %(complete_var)s=fish_complete COMP_WORDS=(commandline -cp) COMP_CWORD=(commandline -t) \\
            %(prog_name)s)
        set -l found (string split -m 1 "," -- $line)
        if test $found[1] = dir
            __fish_complete_directories $found[2]
        else if test $found[1] = file
            __fish_complete_path $found[2]
        else if test $found[1] = plain
            echo $found[2]
        end
    end
end

complete --no-files --command %(prog_name)s --arguments "(%(complete_func)s)"
"""


class Bash(BashComplete):
    """Completion in bash, by the line up to the cursor."""

    source_template = BASH

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._before = ""
        """Beginning of the word that bash does not replace: it breaks words at = and :, and this does not."""
        self._quoted = False
        """True inside of quotes, where bash quotes by itself."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the cursor, and the beginning of the word at it."""
        *words, last = split_arg_string(os.environ["COMP_LINE"] + END)
        incomplete = last.removesuffix(END)
        current = os.environ.get("COMP_WORD", "")
        self._quoted = current[:1] in ("'", '"')
        replaced = "" if not current.strip(BREAKS) else "".join(split_arg_string(current)[:1])
        self._before = incomplete.removesuffix(replaced) if replaced else incomplete
        return words[1:], incomplete

    def format_completion(self, item: CompletionItem) -> str:
        """Return a line for bash: the type, and the text that replaces the word."""
        value = str(item.value).removeprefix(self._before)
        inserted = value if self._quoted else SAFE.sub(ESCAPED, value)
        return f"{item.type}\t{inserted}"


class Zsh(ZshComplete):
    """Completion in zsh; no space follows a setting that lacks its value."""

    source_template = ZSH


class Fish(FishComplete):
    """Completion in fish; a name may have a comma."""

    source_template = FISH


SHELLS: Final[dict[str, type[ShellComplete]]] = {"bash": Bash, "zsh": Zsh, "fish": Fish}


def register() -> None:
    """Let click complete by these classes."""
    for name, kind in SHELLS.items():
        add_completion_class(kind, name)
