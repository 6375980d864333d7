-- The message trace of services: each message has the id of its activity, and an order the ids of the activities about it.

CREATE STREAM messages (
  activity_id STRING NOT NULL,
  host        STRING NOT NULL,
  service     STRING NOT NULL,
  operation   STRING NOT NULL,
  direction   STRING NOT NULL CHECK (direction IN ('IN', 'OUT')),
  status      STRING NOT NULL,
  body        STRING
);

CREATE STREAM orders (order_id LONG NOT NULL, activities LIST[STRING], customer STRING);

CREATE SEARCH INDEX ON messages (activity_id ID CORRELATION, status ID, service FACET, body TEXT);
CREATE SEARCH INDEX ON orders (order_id ID CORRELATION, activities ID CORRELATION, customer ID);
