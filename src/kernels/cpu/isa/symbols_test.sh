#!/bin/sh
# What is at stake: of a weak symbol (an inline function, a std template) the linker keeps one copy
# for the whole program. If that is the copy of avx512.cc, a CPU without AVX-512 dies in code that
# has nothing to do with kernels. So the files of cpu/isa may define no weak symbol.
# Usage: symbols_test.sh liblineshaft_kernels.a
set -eu
listing=$(nm -A "$1" | grep -E '(scalar|avx2|avx512)\.cc\.o:')
for isa in scalar avx2 avx512; do
  echo "$listing" | grep -q "$isa\.cc\.o:.* T .*table" || { echo "no table in $isa.cc.o"; exit 1; }
done
if echo "$listing" | grep -E ' [WVu] '; then
  echo "weak symbols above: keep them out of cpu/isa"
  exit 1
fi
echo "no weak symbols"
