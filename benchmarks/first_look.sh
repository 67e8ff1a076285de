#!/usr/bin/env bash
# A first look at a machine with a GPU, in at most nine minutes, without a network:
#
#     bash benchmarks/first_look.sh OUT [FOLDER]
#
# What each command prints is in OUT. One that fails or reaches its time limit stops no other; its
# status is in OUT/stages.txt. With the FOLDER of configs/multi30k.py, a model is trained for the
# time that is left: ended by the limit, it saves, and its best params are scored. python3 is the one
# on the PATH. DEVICE=cpu tries the commands in a small size.
set -u
out=$1 folder=${2:-} begun=$SECONDS
mkdir -p "$out"
export PYTHONUNBUFFERED=1
sizes="--model base --batch 195 --length 128 --updates 5 --seconds 6"
engines=this-bfloat16,torch-compile-bfloat16,torch-bfloat16,this-float32,this-bfloat16-cudnn
[ "${DEVICE:-}" != cpu ] || sizes="--model small --batch 2 --length 16 --seconds 0.1" engines=this-float32
look() { # SECONDS NAME COMMAND...
	local limit=$1 name=$2
	shift 2
	timeout --kill-after=10 "$limit" "$@" >"$out/$name.txt" 2>&1
	echo "$name: exit status $?, after $((SECONDS - begun)) s" | tee -a "$out/stages.txt"
}
launch() { # SECONDS NAME FLAGS...
	look "$1" "$2" python3 launch.py --config.data.data_dir="$out/data" "${@:3}"
}
step="python3 -m benchmarks.train_step --turns 1 $sizes"
look 60 numerics python3 -m benchmarks.numerics
look 180 steps $step --engines "$engines" --trace "$out/trace"
look 20 kernels python3 -m benchmarks.kernels "$out/trace"
[ "${DEVICE:-}" = cpu ] || look 60 big ${step/base/big} --engines this-bfloat16 --peers ""
launch 90 quickstart --config=configs/quickstart.py --workdir="$out/quickstart"
# Two runs, whose losses are the same to the bit if the flag keeps its promise.
for run in a b; do
	XLA_FLAGS=--xla_gpu_deterministic_ops=true launch 60 "$run" --config=configs/quickstart.py --workdir="$out/$run" \
		--config.train.num_steps=40 --config.evaluate.every=0 --config.train.log_every=10 --config.decode.beam_width=1
done
losses() { grep -o '"step": [0-9]*\|"loss": [0-9.]*' "$out/$1/metrics.jsonl"; }
look 5 deterministic diff <(losses a) <(losses b)
left=$((490 - SECONDS + begun))
if [ "$folder" ] && [ "$left" -ge 60 ]; then
	launch "$left" multi30k --config=configs/multi30k.py --workdir="$out/multi30k" --config.data.directory="$folder"
	launch 50 score --mode=evaluate --workdir="$out/multi30k"
fi
