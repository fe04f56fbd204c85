"""The loop, the schedule, configurations and mechanisms; one short file per algorithm; auto."""
