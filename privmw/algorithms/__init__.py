"""The loop, the schedule, configurations and mechanisms; one short file per algorithm, and the recommended one."""
