# Hosts of ssh: those with a section in its configuration, and those with a readable name among the known hosts.
_haul_known_hosts() {
    {
        sed -n 's/#.*//; s/^[[:blank:]]*[Hh][Oo][Ss][Tt][[:blank:]=]\{1,\}//p' ~/.ssh/config
        sed '/^[|@#]/d; s/[[:blank:]].*//; s/\[\([^]]*\)\]:[0-9]*/\1/g' ~/.ssh/known_hosts
    } 2>/dev/null | tr -s '[:blank:],"' '\n' | sed '/^$/d; /[*?!:]/d' | sort -u
}
