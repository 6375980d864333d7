-- Readings of devices in houses: what is overused is told at once, and every three minutes it is summed up.

CREATE STREAM smartHomeData (
  house_id      INT     NOT NULL CHECK (house_id >= 1),
  metro_area    STRING  NOT NULL,
  state         STRING  NOT NULL,
  device_id     INT     NOT NULL,
  power_reading FLOAT   NOT NULL CHECK (power_reading >= 0),
  is_peak       BOOLEAN NOT NULL
);

-- At once: which devices were above 950, how often, and how far. One row a device, read by its key.
CREATE MATERIALIZED VIEW OVERUSED_DEVICES AS
  SELECT metro_area, house_id, device_id,
         COUNT(*) AS readings, MAX(power_reading) AS most, LAST(power_reading) AS newest
  FROM STREAM(smartHomeData) WHERE power_reading > 950
  GROUP BY metro_area, house_id, device_id;

-- And a message for each device when it is above 990 for the first time.
CREATE STREAM alerts WITH (store = true);
CREATE ALERT overused ON OVERUSED_DEVICES WHEN most > 990 INTO alerts;

-- The same as a batch: every three minutes, what is new since the last time, onto a stream.
CREATE STREAM overusedReadings (
  house_id INT, metro_area STRING, state STRING, device_id INT, power_reading FLOAT, is_peak BOOLEAN
);
CREATE JOB overused_readings SCHEDULE '*/3 * * * *' WITH (incremental = true) AS
  INSERT INTO overusedReadings (house_id, metro_area, state, device_id, power_reading, is_peak)
  SELECT house_id, metro_area, state, device_id, power_reading, is_peak
  FROM smartHomeData WHERE power_reading > 950;

-- Every three minutes: the published summaries, each table anew.
CREATE TABLE cityUsage (metro_area VARCHAR, avg_usage DOUBLE, min_usage REAL, max_usage REAL);
CREATE TABLE peakDeviceUsageRange (house_id INT, usage_range REAL);
CREATE TABLE stateAvgUsage (state VARCHAR, state_avg_usage DOUBLE);
CREATE TABLE stateUsageDifference (state VARCHAR, avg_usage_difference DOUBLE);

CREATE JOB usage SCHEDULE '*/3 * * * *' AS $$
  INSERT OVERWRITE TABLE cityUsage
    SELECT metro_area, avg(power_reading), min(power_reading), max(power_reading)
    FROM smartHomeData GROUP BY metro_area;
  INSERT OVERWRITE TABLE peakDeviceUsageRange
    SELECT house_id, max(power_reading) - min(power_reading)
    FROM smartHomeData WHERE is_peak = true AND metro_area = 'Seattle' GROUP BY house_id;
  INSERT OVERWRITE TABLE stateAvgUsage
    SELECT state, avg(power_reading) FROM smartHomeData GROUP BY state;
  INSERT OVERWRITE TABLE stateUsageDifference
    SELECT a2.state, a2.state_avg_usage - a1.overall_avg
    FROM (SELECT avg(state_avg_usage) AS overall_avg FROM stateAvgUsage) AS a1 CROSS JOIN stateAvgUsage AS a2;
$$;
