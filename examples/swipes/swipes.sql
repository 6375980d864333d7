-- A matching app, wholly in SQL: swipes come in over HTTP, likes and matches are kept by user and given out.

-- What a swipe may be: whatever is refused here is answered with 400.
CREATE STREAM swipes (
  swiper    LONG   NOT NULL CHECK (swiper BETWEEN 1 AND 50000),
  swipee    LONG   NOT NULL CHECK (swipee BETWEEN 1 AND 50000),
  direction STRING NOT NULL CHECK (direction IN ('left', 'right')),
  comment   STRING NOT NULL CHECK (SIZEOF(comment) <= 256)
);

-- How often each user swiped in which direction. The same swipe twice counts twice, as it did in the app.
CREATE MATERIALIZED VIEW stats AS
  SELECT swiper,
         COUNT(*) FILTER (WHERE direction = 'right') AS likes,
         COUNT(*) FILTER (WHERE direction = 'left') AS dislikes
  FROM STREAM(swipes) GROUP BY swiper;

-- Whom each user liked: up to a hundred, each once, those first that came first. Who is swiped left later stays.
CREATE MATERIALIZED VIEW matches AS
  SELECT swiper, COLLECT_SET(CAST(swipee AS STRING), 100) AS matchList
  FROM STREAM(swipes) WHERE direction = 'right' GROUP BY swiper;

-- The exact variant: of each pair the last swipe holds.
CREATE MATERIALIZED VIEW last_swipes AS
  SELECT swiper, swipee, LAST(direction) AS direction
  FROM STREAM(swipes) GROUP BY swiper, swipee;

-- Who like each other at present: the smaller number first. A pair has a row as long as both last swiped right.
CREATE MATERIALIZED VIEW mutual AS
  SELECT CASE WHEN swiper < swipee THEN swiper ELSE swipee END AS one,
         CASE WHEN swiper < swipee THEN swipee ELSE swiper END AS other,
         LAST(CASE WHEN swiper < swipee THEN direction END) AS of_one,
         LAST(CASE WHEN swiper > swipee THEN direction END) AS of_other
  FROM STREAM(swipes) WHERE swiper != swipee
  GROUP BY CASE WHEN swiper < swipee THEN swiper ELSE swipee END,
           CASE WHEN swiper < swipee THEN swipee ELSE swiper END
  HAVING of_one = 'right' AND of_other = 'right';

-- The app's routes, with and without the slash at the end.
CREATE ENDPOINT POST '/swipe/{leftorright}/' (
  leftorright STRING CHECK (leftorright IN ('left', 'right')) ELSE 400 'swipe left or right',
  swiper      LONG   NOT NULL CHECK (swiper BETWEEN 1 AND 50000) ELSE 400 'swiper is a user from 1 to 50000',
  swipee      LONG   NOT NULL CHECK (swipee BETWEEN 1 AND 50000) ELSE 400 'swipee is a user from 1 to 50000',
  comment     STRING NOT NULL CHECK (SIZEOF(comment) <= 256) ELSE 400 'a comment has 256 characters at most'
) INTO swipes SELECT swiper, swipee, leftorright AS direction, comment WITH (status = 201, errors = message);

CREATE ENDPOINT GET '/matches/{userID}/' (
  userID LONG CHECK (userID BETWEEN 1 AND 50000) ELSE 404 'user not found'
) AS SELECT matchList AS "matchList" FROM matches WHERE swiper = $userID
     ELSE 404 'user not found' WITH (errors = message);

-- The doubled l of numLlikes is in the app's published contract.
CREATE ENDPOINT GET '/stats/{userID}/' (
  userID LONG CHECK (userID BETWEEN 1 AND 50000) ELSE 404 'user not found'
) AS SELECT likes AS "numLlikes", dislikes AS "numDislikes", likes AS "numLikes" FROM stats WHERE swiper = $userID
     ELSE 404 'user not found' WITH (errors = message);

CREATE ENDPOINT GET '/mutual/{one}/{other}' (
  one   LONG CHECK (one BETWEEN 1 AND 50000) ELSE 404 'user not found',
  other LONG CHECK (other BETWEEN 1 AND 50000) ELSE 404 'user not found',
  CHECK (one < other) ELSE 400 'the smaller number stands first'
) AS SELECT true AS "mutual" FROM mutual WHERE one = $one AND other = $other
     ELSE SELECT false AS "mutual" WITH (errors = message);

CREATE ENDPOINT GET '/health' AS SELECT 'up' AS status;
