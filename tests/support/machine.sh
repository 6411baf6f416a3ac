#!/bin/sh
# This system once more, as a machine of its own: run in new namespaces by tests/system/machine.py. What is written goes to memory.
# usage: machine.sh DIRECTORY     an empty directory; becomes the machine's systemd
set -e
cd "$1"
mount --make-rprivate /
mount -t tmpfs kova "$1"
cd "$1"
mkdir upper work root
mount -t overlay kova -o lowerdir=/,upperdir=upper,workdir=work root
cd root

# Nothing of this system's own services, rules and exceptions; nothing that loads modules or sets what all share.
rm -rf etc/systemd/system etc/dpkg/dpkg.cfg.d/* usr/sbin/policy-rc.d var/log/journal var/lib/man-db/auto-update
mkdir -p etc/systemd/system proc sys run tmp dev
for unit in systemd-modules-load.service systemd-sysctl.service systemd-binfmt.service systemd-udevd.service \
	systemd-udev-trigger.service dev-hugepages.mount dev-mqueue.mount sys-kernel-debug.mount sys-kernel-tracing.mount \
	sys-kernel-config.mount sys-fs-fuse-connections.mount proc-sys-fs-binfmt_misc.automount systemd-firstboot.service; do
	ln -s /dev/null "etc/systemd/system/$unit"
done
printf '[Unit]\nRequires=sysinit.target\nAfter=sysinit.target\n' >etc/systemd/system/machine.target
tr -d - </proc/sys/kernel/random/uuid >etc/machine-id
: >etc/fstab

mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,ro,bind proc/sys
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs run run
mkdir run/written # what the machine has written, and nothing else
mount --bind ../upper run/written
mount -t tmpfs tmp tmp
mount -t tmpfs dev dev
for device in null zero full random urandom tty; do
	: >"dev/$device"
	mount --bind "/dev/$device" "dev/$device"
done
mkdir dev/shm dev/pts old
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ip link set lo up
pivot_root . old
umount -l old
rmdir old
exec setpriv --bounding-set -sys_module,-sys_time env -i container=kova \
	PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
	/lib/systemd/systemd --unit=machine.target --log-target=journal --show-status=no
