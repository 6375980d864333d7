-- Over the demo's flights: how each airport does, which routes are worst, and what the weather has to do with it.

-- The demo stores its flights as they come. From here on they are stored with these columns of their nested events.
DROP STREAM IF EXISTS flights;
CREATE STREAM flights (
  time          TIMESTAMP NOT NULL,
  carrier       STRING    NOT NULL,
  flight        LONG      NOT NULL,
  origin_code   STRING    NOT NULL PATH 'origin.faa',
  origin_name   STRING    PATH 'origin.name',
  destination   STRING    NOT NULL PATH 'dest.faa',
  dep_delay     LONG,
  arr_delay     LONG,
  cancelled     BOOLEAN   NOT NULL,
  precipitation DOUBLE    PATH 'weather.precip',
  visibility    DOUBLE    PATH 'weather.visib',
  wind          DOUBLE    PATH 'weather.wind_speed'
);

-- A row for each airport that flights leave from.
CREATE MATERIALIZED VIEW airports AS
  SELECT origin_code AS airport, LAST(origin_name) AS name,
         COUNT(*) AS flights, COUNT(*) FILTER (WHERE cancelled) AS cancelled,
         AVG(dep_delay) AS delay, MAX(dep_delay) AS most,
         COUNT(*) FILTER (WHERE dep_delay > 60) AS over_an_hour
  FROM STREAM(flights) GROUP BY origin_code;

-- A row for each route.
CREATE MATERIALIZED VIEW routes AS
  SELECT origin_code AS origin, destination,
         COUNT(*) AS flights, AVG(dep_delay) AS dep_delay, AVG(arr_delay) AS arr_delay
  FROM STREAM(flights) WHERE NOT cancelled GROUP BY origin_code, destination;

-- A row for each kind of weather at the origin, at each airport.
CREATE MATERIALIZED VIEW weather_delays AS
  SELECT CASE WHEN visibility IS NULL THEN 'unknown'
              WHEN visibility < 3 THEN 'fog'
              WHEN precipitation > 0 THEN 'rain or snow'
              WHEN wind > 20 THEN 'wind'
              ELSE 'fair' END AS sky,
         origin_code AS airport, COUNT(*) AS flights,
         COUNT(*) FILTER (WHERE cancelled) AS cancelled, COUNT(dep_delay) AS departed, AVG(dep_delay) AS delay
  FROM STREAM(flights)
  GROUP BY CASE WHEN visibility IS NULL THEN 'unknown'
                WHEN visibility < 3 THEN 'fog'
                WHEN precipitation > 0 THEN 'rain or snow'
                WHEN wind > 20 THEN 'wind'
                ELSE 'fair' END, origin_code;

-- A message when a route's flights begin to be late by an hour and a half on average, and when they are not any more.
CREATE STREAM route_alerts WITH (store = true);
CREATE ALERT late_route ON routes WHEN flights >= 20 AND dep_delay > 90 INTO route_alerts;
