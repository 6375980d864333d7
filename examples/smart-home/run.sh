#!/bin/sh
# The whole example: a server, its SQL, so many events (100,000), and what is asked. See README.md.
. "$(dirname "$0")/../server.sh"
here=$root/examples/smart-home
events=${1:-100000}

start serve
"$swiftwater" sql --file "$here/smart-home.sql" >/dev/null
# Until all has been asked they run when they are told to, and not by the clock as well.
"$swiftwater" sql "ALTER JOB overused_readings DISABLE; ALTER JOB usage DISABLE" >/dev/null
"$swiftwater" generate smart-home --events "$events" | "$swiftwater" ingest smartHomeData

ask "SELECT metro_area, count(*) AS devices, sum(readings) AS readings, max(most) AS most FROM OVERUSED_DEVICES
  GROUP BY metro_area ORDER BY metro_area"
# What the clock would do every three minutes, now.
ask "RUN JOB overused_readings"
ask "RUN JOB usage"
ask "SELECT count(*) AS readings FROM overusedReadings"
ask "SELECT * FROM cityUsage ORDER BY metro_area"
ask "SELECT * FROM peakDeviceUsageRange ORDER BY house_id LIMIT 5"
ask "SELECT * FROM stateUsageDifference ORDER BY state"
# The same once more, by the statements as they were published.
"$swiftwater" sql --spark --file "$here/published.sql" >/dev/null
ask "SELECT * FROM ct"
ask "SELECT count(*) AS messages FROM alerts"
ask "SELECT job, run, state, rows FROM system.job_runs ORDER BY job, run"
"$swiftwater" sql "ALTER JOB overused_readings ENABLE; ALTER JOB usage ENABLE" >/dev/null
finish
