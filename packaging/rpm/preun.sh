if [ "$1" = 0 ] && [ -d /run/systemd/system ]; then systemctl --no-reload disable --now haul-serve.service || :; fi
