#!/bin/sh
# Renews kvm_exit.format and trace in this folder, from tracefs of a stock arm64 kernel. init.c runs
# the traced guest in an emulated machine whose CPU has EL2. Takes about a minute.
# Packages: clang lld cpio qemu-system-arm, and the keys of Debian's archive.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# Gets the kernel with a private apt configuration, so this machine's packages do not change.
mkdir -p lists/partial cache/archives/partial
: >status
keys=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb [signed-by=$keys arch=arm64] http://deb.debian.org/debian bookworm main" >sources.list
arm64() {
	tool=$1
	shift
	"$tool" -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root \
		-o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null \
		-o Dir::Etc::PreferencesParts=/dev/null -o Dir::State::Lists="$work/lists" \
		-o Dir::State::Status="$work/status" -o Dir::Cache="$work/cache" "$@"
}
arm64 apt-get update -qq
image=$(arm64 apt-cache depends linux-image-cloud-arm64 | sed -n 's/.*Depends: \(linux-image.*\)/\1/p')
arm64 apt-get download -qq "$image"
dpkg -x linux-image*.deb kernel

clang --target=aarch64-linux-gnu -O2 -Wall -ffreestanding -nostdlib -static -fno-stack-protector \
	-fuse-ld=lld -I/usr/include/x86_64-linux-gnu "$here/init.c" -o init
echo init | cpio --create --format=newc --quiet >initramfs
timeout 300 qemu-system-aarch64 -M virt,virtualization=on,gic-version=3 -cpu cortex-a72 -accel tcg \
	-m 512 -kernel kernel/boot/vmlinuz-* -initrd initramfs -append "console=ttyAMA0 quiet panic=-1" \
	-nodefaults -nic none -display none -monitor none -serial file:console -no-reboot </dev/null
tr -d '\r' <console | grep -v '^\[' >told
grep -q '^# tracer' told || { cat console >&2; exit 1; }
sed -n '/^name: kvm_exit/,/^print fmt/p' told >"$here/kvm_exit.format"
sed -n '/^# tracer/,$p' told >"$here/trace"
echo "$image: $(grep -c kvm_exit: "$here/trace") exits"
