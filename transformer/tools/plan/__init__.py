"""--mode=plan: estimates memory, FLOPs, communication and time of a run from its compiled step.

Read plan.py (the mode; its keys are in plan_keys.py), topologies.py (abstract devices), program.py
(the instructions of a compiled program, and the bytes that they move), collectives.py (the bytes
sent between devices), step_time.py (the time of a step).
"""
