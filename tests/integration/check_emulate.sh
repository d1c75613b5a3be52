#!/bin/bash
# Runs correct and incorrect PTX kernels with `kiln emulate`, and checks key lines of its output, its files and exit codes:
#   check_emulate.sh KILN WORK_DIR
set -u
kiln=$1 work=$2
rm -rf "$work" && mkdir -p "$work" && cd "$work" || exit 1
failures=0

# expect EXIT_CODE REGEX ARGUMENTS...: a line of the command's output must match the extended regular expression.
expect() {
  local code=$1 pattern=$2 out actual
  shift 2
  out=$(timeout 100 "$kiln" emulate "$@" 2>&1 </dev/null)
  actual=$?
  if [ $actual != "$code" ] || ! grep -qE -- "$pattern" <<<"$out"; then
    echo "kiln emulate $*: exit code $actual, expected $code and a line that matches \"$pattern\" in:"
    head -c 2000 <<<"$out" | sed 's/^/    /'
    failures=$((failures + 1))
  fi
}

cat >add.ptx <<'END'
.version 8.0
.target sm_80
.address_size 64
.file 1 "add.cu"
.visible .entry _Z3addPfS_fi(.param .u64 x, .param .u64 y, .param .f32 a, .param .u32 n)
{
.reg .b32 %r<9>; .reg .b64 %x<9>; .reg .f32 %f<9>; .reg .pred %p;
ld.param.u64 %x0, [x]; ld.param.u64 %x1, [y]; ld.param.f32 %f0, [a]; ld.param.u32 %r1, [n];
mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mad.lo.u32 %r2, %r3, %r4, %r2;
setp.ge.u32 %p, %r2, %r1; @%p ret;
.loc 1 5 0
mul.wide.u32 %x2, %r2, 4; add.u64 %x3, %x0, %x2; add.u64 %x4, %x1, %x2; ld.global.f32 %f1, [%x3];
ld.global.f32 %f2, [%x4]; fma.rn.f32 %f2, %f1, %f0, %f2; st.global.f32 [%x4], %f2;
ret;
}
.visible .entry same(.param .u64 x) { .reg .b32 %r; .reg .b64 %x; ld.param.u64 %x, [x]; mov.u32 %r, %tid.x; st.global.u32 [%x], %r; ret; }
.visible .entry member(.param .align 8 .b8 p[16]) { .reg .b32 %r; .reg .b64 %x; ld.param.u64 %x, [p]; ld.param.u32 %r, [p+12]; st.global.u32 [%x], %r; ret; }
.visible .entry _Z3sumIfEvT_(.param .u32 n) { ret; }
.visible .entry _Z3sumIdEvT_(.param .u32 n) { ret; }
.visible .entry spin(.param .u32 n) { loop: bra loop; }
.visible .entry pair(.param .align 8 .b8 p[12]) { .reg .b32 %r<3>; ld.param.u32 %r1, [p+8]; ret; }
.visible .func deep(.param .b32 n) { .param .b32 m; .reg .b32 %r; ld.param.b32 %r, [n]; st.param.b32 [m], %r; call deep, (m); ret; }
.visible .entry recursive(.param .u32 n) { .param .b32 m; .reg .b32 %r; ld.param.u32 %r, [n]; st.param.b32 [m], %r; call deep, (m); ret; }
.visible .entry waits(.param .u32 n) { .reg .b32 %r; .reg .pred %p; mov.u32 %r, %tid.x; setp.lt.u32 %p, %r, 32; @%p bar.sync 0, 64; ret; }
END

good=(add.ptx --kernel add --grid 4 --block 128)
expect 0 'nothing was found' "${good[@]}" --args buffer:f32:500:iota buffer:f32:500:value=1 f32:2 i32:500
expect 0 'argument 2: f32\[500\]: 1, 3, 5, 7, .*; least 1, largest 999, mean 500; 499 changed' "${good[@]}" --args buffer:f32:500:iota buffer:f32:500:value=1 f32:2 i32:500
expect 0 'nothing was found' "${good[@]}" --threads 2 --check init --args buffer:f32:500 buffer:f32:500 f32:2 i32:500
expect 0 '"sectors": 189' "${good[@]}" --counters --json --args buffer:f32:500 buffer:f32:500 f32:2 i32:500
expect 0 '^  add.cu:5 .* 189 ' "${good[@]}" --counters --args buffer:f32:500 buffer:f32:500 f32:2 i32:500
expect 0 '^_Z3addPfS_fi: x \(\.u64, 8 bytes\), ' add.ptx --list
expect 0 'nothing was found' add.ptx --kernel pair --args hex:000000000000000000000000
expect 0 'argument 1.1: i32\[3\]: 5, 0, 0;' add.ptx --kernel member --block 1 --args '{buffer:i32:3:zeros,u8:1,i32:5}'
expect 1 'the structure does not end with }' add.ptx --kernel member --args '{i32:3'
# Two runs of one command print the same text, including addresses.
for way in "" --json; do
  for n in 1 2; do
    "$kiln" emulate "${good[@]}" $way --args buffer:f32:100 buffer:f32:400:unwritten f32:2 i32:500 >same$n.txt 2>&1
  done
  if ! grep -q 'out of bounds' same1.txt || ! cmp -s same1.txt same2.txt; then
    echo "kiln emulate $way: two runs differ, or found no error:"
    diff same1.txt same2.txt
    failures=$((failures + 1))
  fi
done
# Tensor maps with a box of 8 rows of 32 bytes, passed as a parameter and by address. Clusters.
cat >box.ptx <<'END'
.version 8.5
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry box(.param .align 64 .b8 map[128], .param .u64 out)
{
.reg .b32 %r<9>; .reg .b64 %x<9>; .reg .pred %p<3>; .shared .align 8 .b64 bar;
mov.u32 %r0, %tid.x; setp.ne.u32 %p0, %r0, 0; mov.u32 %r1, bar; mov.u32 %r2, smem; mov.u64 %x0, map; cvta.param.u64 %x0, %x0;
@%p0 bra START;
mbarrier.init.shared.b64 [%r1], 1; fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared.b64 %x1, [%r1], 256;
cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%x0, {%r0, 2}], [%r1];
START: bar.sync 0;
WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0; @!%p1 bra WAIT;
mad.lo.u32 %r3, %r0, 4, %r2; ld.shared.u32 %r4, [%r3];
ld.param.u64 %x2, [out]; mad.wide.u32 %x2, %r0, 4, %x2; st.global.u32 [%x2], %r4; ret;
}
.visible .entry by_address(.param .u64 map) { .reg .b64 %x<2>; ld.param.u64 %x0, [map]; ld.global.u64 %x1, [%x0]; ret; }
.visible .entry ranks(.param .u64 out) { .reg .b32 %r<4>; .reg .b64 %x; ld.param.u64 %x, [out]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %cluster_ctarank; mad.wide.u32 %x, %r1, 4, %x; st.global.u32 [%x], %r2; ret; }
END
box=(box.ptx --kernel box --block 64 --shared 1024)
expect 0 'argument 2: i32\[64\]: 32, 33, 34, 35, .*; least 32, largest 151' "${box[@]}" --args tensor:i32:16x100:iota:box=8x8 buffer:i32:64:zeros
expect 0 'argument 2: i32\[64\]: 40, 41, .*; least 0, largest 67' "${box[@]}" --args tensor:i32:8x4:strides=80:iota:box=8x8 buffer:i32:64:zeros
expect 0 'argument 2: i32\[64\]: 16, .*, 20, 21, ' "${box[@]}" --args tensor:i32:8x100:iota:box=8x8:swizzle=32 buffer:i32:64:zeros
expect 0 'argument 2: f32\[64\]: 0.5, .* 16 NaN; 64 changed' "${box[@]}" --args tensor:f32:8x8:value=0.5:box=8x8:nan buffer:f32:64:zeros
expect 0 'argument 2: i32\[64\]: 16, 17, ' "${box[@]}" --args tensor:i32:8x8:of=2:box=8x8 buffer:i32:64:iota
expect 0 'nothing was found' box.ptx --kernel by_address --args tensor:i32:8x100:box=8x8
expect 0 'argument 1: i32\[8\]: 0, 1, 2, 3, 0, 1, 2, 3' box.ptx --kernel ranks --grid 8 --block 1 --cluster 4 --args buffer:i32:8:zeros
expect 1 'a grid of 8 x 1 x 1 blocks, which is no multiple of the cluster, 3 x 1 x 1' box.ptx --kernel ranks --grid 8 --cluster 3 --args null
expect 1 'a cluster of 16 x 1 x 1 blocks; more than 8 are not portable' box.ptx --kernel ranks --grid 16 --cluster 16 --args null
expect 0 '0, 1, 2, 3, 4' box.ptx --kernel ranks --grid 16 --block 1 --cluster 16 --non-portable-cluster --args buffer:i32:16:zeros
expect 1 'a cluster of 32 x 1 x 1 blocks; it has at most 16' box.ptx --kernel ranks --grid 32 --cluster 32 --args null
expect 1 'a row of the box has 12 bytes; it is a multiple of 16' "${box[@]}" --args tensor:i32:8x8:box=3x8 null
expect 1 'it does not say its box' "${box[@]}" --args tensor:i32:8x8 null
expect 1 'it does not say its one to five sizes' "${box[@]}" --args tensor:i32:8x8x8x8x8x8:box=8x8 null
expect 1 '"box=8" is not an option of a tensor map' "${box[@]}" --args tensor:i32:8x8:box=8 null
expect 1 'argument 3 is not a buffer' "${box[@]}" --args tensor:i32:8x8:box=8x8:of=3 null
expect 1 'the stride of dimension 1 is 12; it is a multiple of 16' "${box[@]}" --args tensor:i32:3x8:box=4x8 null
expect 1 'more than a quarter of this machine' "${box[@]}" --args tensor:i32:4294967296x4294967296:strides=1099511627760:box=4x8 null

# One run writes a file that the next run reads.
expect 0 'in y.bin' "${good[@]}" --args buffer:f32:500:iota buffer:f32:500:zeros:out=y.bin f32:3 i32:500
[ "$(stat -c %s y.bin)" = 2000 ] || { echo "y.bin has $(stat -c %s y.bin) bytes"; failures=$((failures + 1)); }
expect 0 'argument 2: f32\[500\]: 0, 3, 6, 9, .*; 0 changed; in z.bin' "${good[@]}" --args buffer:f32:500:zeros buffer:f32:in=y.bin:out=z.bin f32:3 i32:500
cmp y.bin z.bin || failures=$((failures + 1))

# Errors in kernels that the emulator finds.
expect 3 'add.ptx:12 \(add.cu:5\): out of bounds: ld.global.f32 reads 4 bytes at .*, 0 bytes past the end of argument 1 \(1996 bytes' "${good[@]}" --args buffer:f32:499 buffer:f32:500 f32:2 i32:500
expect 3 '^_Z3addPfS_fi: [12] findings?' "${good[@]}" --args buffer:f32:499 buffer:f32:500 f32:2 i32:500
expect 3 'uninitialised read' "${good[@]}" --args buffer:f32:500:unwritten buffer:f32:500 f32:2 i32:500
expect 0 'nothing was found' "${good[@]}" --check bounds --args buffer:f32:500:unwritten buffer:f32:500 f32:2 i32:500
expect 3 '"finished": true' "${good[@]}" --json --args buffer:f32:499 buffer:f32:500 f32:2 i32:500
expect 3 'a null pointer' "${good[@]}" --args null buffer:f32:500 f32:2 i32:500
expect 3 'race in global memory' add.ptx --kernel same --grid 2 --block 64 --args buffer:u32:1
expect 3 'out of budget' add.ptx --kernel spin --budget 100000 --args i32:1
expect 3 'stack overflow' add.ptx --kernel recursive --args i32:1
expect 3 'deadlock|no warp can continue' add.ptx --kernel waits --block 32 --args i32:1

# Wrong arguments and files.
expect 1 'it has several kernels; choose one with --kernel: _Z3addPfS_fi, same, member' add.ptx
expect 1 'several kernels are called sum; choose among _Z3sumIfEvT_, _Z3sumIdEvT_' add.ptx --kernel sum
expect 0 '^_Z3sumIdEvT_: nothing was found' add.ptx --kernel 'sum<double>' --args i32:1
expect 1 'there is no kernel spinn; did you mean spin\?' add.ptx --kernel spinn
expect 1 'takes 4 arguments: x \(\.u64, 8 bytes\), .*; --args gives 1' add.ptx --kernel add --args null
expect 1 'argument 4, "i64:500", has 8 bytes, and the parameter is n \(\.u32, 4 bytes\)' "${good[@]}" --args null null f32:2 i64:500
expect 1 'argument 3, "f32:x": "x" is not a value of type f32' "${good[@]}" --args null null f32:x i32:1
expect 1 '"300" is not a value of type u8' add.ptx --kernel same --args u8:300
expect 1 'it does not say how many elements' "${good[@]}" --args buffer:f32 null f32:2 i32:1
expect 1 '"nothing" is not an option of a buffer' "${good[@]}" --args buffer:f32:5:nothing null f32:2 i32:1
expect 1 'more than a quarter of this machine' "${good[@]}" --args buffer:f32:9999999999999999 null f32:2 i32:1
expect 1 '18446744073709551615 elements of 4 bytes are more than a quarter' "${box[@]}" --args tensor:f32:4294967296x4294967296:box=8x8 buffer:i32:64
expect 1 'the stride of dimension 2 is 1099511627776; it is less than 2.40' "${box[@]}" --args tensor:f32:4294967296x4294967296x4:box=8x8x1 buffer:i32:64
for option in --seed --budget --shared; do
  for value in -1 -5 18446744073709551616 99999999999999999999999 1e3 0x; do
    expect 2 "$option: $value is not a number from 0 to 18446744073709551615" "${good[@]}" $option $value --args null null f32:2 i32:1
  done
done
expect 0 'nothing was found' "${good[@]}" --seed 0xffffffffffffffff --args buffer:f32:500 buffer:f32:500 f32:2 i32:500
expect 1 'no.bin cannot be read' "${good[@]}" --args buffer:f32:in=no.bin null f32:2 i32:1
expect 1 '--grid 4,: give one to three numbers' add.ptx --kernel spin --grid 4, --args i32:1
expect 1 'a grid of 1 x 70000 x 1 blocks' add.ptx --kernel spin --grid 1,70000 --args i32:1
expect 1 'a block of 2000 x 1 x 1 threads' add.ptx --kernel spin --block 2000 --args i32:1
expect 1 "the check 'racse' is not known" "${good[@]}" --check racse --args null null f32:2 i32:1
expect 1 'it is for sm_80 and does not run on sm_70' "${good[@]}" --arch sm_70 --args null null f32:2 i32:1
expect 1 '^kiln: nothing.ptx: cannot be read: No such file or directory; name a file with PTX, or - ' nothing.ptx
expect 1 '^kiln: /: cannot be read: Is a directory; ' /
expect 1 '"error": "nothing.ptx: cannot be read' nothing.ptx --json
expect 2 '"error": "The following argument was not expected: --grdi' --json --grdi 4
expect 0 '^          "bytes": 8' add.ptx --list --json
expect 3 'the budget of the launch; if this is no endless loop, raise the budget \(--budget of kiln emulate' add.ptx --kernel spin --budget 1000 --args i32:1
echo '.version 8.0 .target sm_80 .address_size 64 .global .b8 x[18446744073709551615];' >huge.ptx
expect 1 "an array's size is 18446744073709551615, and can be 0 to 4294967296" huge.ptx
echo '.version 8.0 .target sm_80 .address_size 64 .global .b8 x[-5];' >huge.ptx
expect 1 "an array's size is -5, and can be" huge.ptx
expect 2 'run `kiln emulate --help`' --grdi 4 add.ptx
head -c 700 add.ptx >cut.ptx
expect 1 'cut.ptx:[0-9]+: ' cut.ptx --kernel add
head -c 3000 /dev/urandom >noise.ptx
expect 1 '^kiln: noise.ptx' noise.ptx
exit $((failures > 0))
