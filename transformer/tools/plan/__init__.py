"""--mode=plan: memory, FLOPs, communication and time of a run from its compiled step.

Read plan.py (the mode; its keys are in plan_keys.py), hlo.py (what a compiled program runs),
collectives.py (what it sends), tpu_program.py (what it moves), step_time.py (how long that takes),
plan_text.py (the plan as a table).
"""
