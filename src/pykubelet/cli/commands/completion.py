"""``pykubelet completion``: print a shell's completion script, for bash one that knows words with ``:`` and ``=``."""

from typing import Final

import click
from click.shell_completion import get_completion_class

from pykubelet.base.errors import Invalid

_BASH: Final = r"""
# Bash divides words at : and = too: they are joined again for the program, and what bash keeps is cut off its answers.
%(complete_func)s() {
    local IFS=$'\n' line=$COMP_LINE word kept type value i response
    local -a words=()
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if ((i > 0)) && [[ $line != [[:space:]]* ]]; then
            words[-1]+=$word
        else
            words+=("$word")
            line=${line#"${line%%%%[![:space:]]*}"}
        fi
        line=${line#"$word"}
    done
    word=${words[-1]}
    kept=""
    if [[ $word == *:* && $COMP_WORDBREAKS == *:* ]]; then kept=${word%%"${word##*:}"}; fi
    response=$(env COMP_WORDS="${words[*]}" COMP_CWORD=$((${#words[@]} - 1)) %(complete_var)s=bash_complete "$1")
    COMPREPLY=()
    for i in $response; do
        IFS=',' read -r type value <<< "$i"
        if [[ $type == dir ]]; then
            compopt -o dirnames
        elif [[ $type == file ]]; then
            compopt -o default
        elif [[ $type == plain ]]; then
            value=${value#"$kept"}
            COMPREPLY+=("$value")
            if [[ $value == *[:=] ]]; then compopt -o nospace; fi
        fi
    done
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""


@click.command(name="completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script; for bash: source <(pykubelet completion bash)."""
    found = get_completion_class(shell)
    if found is None:
        raise Invalid(f"no completion script for shell {shell}")
    completion = found(ctx.find_root().command, {}, "pykubelet", "_PYKUBELET_COMPLETE")
    click.echo(_BASH.lstrip() % completion.source_vars() if shell == "bash" else completion.source())
