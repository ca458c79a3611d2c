#compdef haul
# Completion of haul for zsh(1).

@HOSTS@
_haul_nothing() {
    _message 'no more arguments'
}

_haul_files() {
    _files
}

_haul_words() {
    local expl
    _wanted words expl word compadd - "$@"
}

_haul_hosts() {
    local PREFIX=$PREFIX IPREFIX=$IPREFIX expl
    local -a hosts=(${(f)"$(_haul_known_hosts)"})
    compset -P '*@'
    _wanted hosts expl host compadd "$@" -a hosts
}

# Paths on the host of a word, through its shared login.
_haul_remote_paths() {
    local -a paths=(${(f)"$($words[1] completions paths "$PREFIX" 2>/dev/null)"}) expl
    local -a directories=(${(M)paths:#*/}) others=(${paths:#*/})
    _wanted paths expl 'remote path' compadd -S '' -a directories
    _wanted paths expl 'remote path' compadd -a others
}

_haul_locations() {
    if [[ $PREFIX == *:* && ${PREFIX%%:*} != */* ]]; then
        _haul_remote_paths
        return
    fi
    local -a kinds=('files:file:_files' 'hosts:host: _haul_hosts -S :')
    (( CURRENT > 2 )) || kinds+=('commands:command:(@COMMANDS@)')
    _alternative $kinds
}

_haul() {
    local place= operands
    local -a options
    (( CURRENT > 2 )) && place=$words[2]
    [[ $place == job ]] && (( CURRENT > 3 )) && place="job $words[3]"
    case $place in
@OPTIONS@
    esac
    case $place in
@OPERANDS@
    esac
    _arguments -s $options "*:operand: $operands"
}

_haul "$@"
