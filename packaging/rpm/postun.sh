if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || :
    if [ "$1" -ge 1 ]; then systemctl try-restart haul-serve.service || :; fi
fi
