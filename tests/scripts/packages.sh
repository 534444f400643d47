# cpack makes Debian packages of the release build: what is in them runs, says what it needs, and names no folder of
# the machine that built it.
set -euo pipefail
build=$(cd "$1/.." && pwd)
command -v cpack >/dev/null && command -v dpkg-shlibdeps >/dev/null || { echo "cpack or dpkg-shlibdeps is not installed"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cpack -G DEB --config "$build/CPackConfig.cmake" -B "$work" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
version=$("$build/bin/ferry" --version | grep -oE '[0-9]+\.[0-9]+\.[0-9]+')
mkdir "$work/root"

# package NAME DEPENDENCY FILE...: unpacks the package; it needs the dependency and has the files.
package() {
  local deb name=$1 depends file
  deb=$(find "$work" -maxdepth 1 -name "${name}_${version}_*.deb")
  [[ -n $deb ]] || { echo "there is no package $name of version $version"; ls "$work"; exit 1; }
  depends=$(dpkg-deb -f "$deb" Depends)
  [[ $depends == *"$2"* ]] || { echo "$name does not need $2 but: $depends"; exit 1; }
  dpkg-deb -x "$deb" "$work/root"
  shift 2
  for file in "$@"; do
    [[ -e $work/root/usr/$file ]] || { echo "$name has no $file"; dpkg-deb -c "$deb"; exit 1; }
  done
}
package tensorferry libibverbs1 bin/ferry
package tensorferry-bench libc6 libexec/tensorferry/ferry-limit-tcp
package libtensorferry-dev libexpected-dev lib/libtensorferry.a include/ferry/ferry.h lib/pkgconfig/tensorferry.pc \
  lib/cmake/Tensorferry/TensorferryConfig.cmake
if [[ -e $build/lib/libferry_grpc.so ]]; then package tensorferry-grpc libssl3 lib/libferry_grpc.so; fi

# The program of the package, not the one that was built.
said=$("$work/root/usr/bin/ferry" --version)
[[ $said == *"$version"* ]] || { echo "ferry --version said: $said"; exit 1; }
"$work/root/usr/bin/ferry" doctor >/dev/null
if find "$work/root" -name '*_internal.h' | grep .; then echo "private headers are packaged"; exit 1; fi
if grep -rIl -e "$build" -e "${build%/build/*}" "$work/root"; then
  echo "the files above name the folder they were built in"
  exit 1
fi
