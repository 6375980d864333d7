#!/bin/sh
# The whole example: a server, its SQL, what the app's users may do and may not, and load. See README.md.
# run.sh [REQUESTS]: so many POSTs (20,000; the app's own tests sent 500,000).
. "$(dirname "$0")/../server.sh"
here=$root/examples/swipes
requests=${1:-20000}

start serve
"$swiftwater" sql --file "$here/swipes.sql" >/dev/null

# Sends a request and shows what comes back: call METHOD PATH [BODY].
call() {
    printf '%s %s %s\n' "$1" "$2" "$(printf '%s' "${3:-}" | cut -c1-70)"
    code=$(curl -sS -X "$1" ${3:+--data-raw "$3"} -o "$work/body" -w '%{http_code}' "$SWIFTWATER_SERVER$2")
    printf '    %s %s\n' "$code" "$(cat "$work/body")"
}

echo
call GET /health
call POST /swipe/right/ '{"swiper": "7", "swipee": "12", "comment": "nice"}'
call POST /swipe/right '{"swiper": "7", "swipee": "12", "comment": "again"}'
call POST /swipe/left/ '{"swiper": "7", "swipee": "13", "comment": ""}'
call POST /swipe/right/ '{"swiper": "12", "swipee": "7", "comment": "you too"}'
call GET '/stats/7/?consistent=true'
call GET /matches/7
call GET /mutual/7/12
call POST /swipe/up/ '{"swiper": "7", "swipee": "12", "comment": ""}'
call POST /swipe/left/ 'swiper=7'
call POST /swipe/left/ '{"swiper": "7", "comment": ""}'
call POST /swipe/left/ '{"swiper": "seven", "swipee": "12", "comment": ""}'
call POST /swipe/left/ '{"swiper": "50001", "swipee": "12", "comment": ""}'
call POST /swipe/left/ "{\"swiper\": \"7\", \"swipee\": \"12\", \"comment\": \"$(printf '%257s' '')\"}"
call GET /stats/abc/
call GET /stats/50001/
call GET /matches/49999/
call POST /swipe/ '{}'

"$here/load.sh" "$requests"

# Nothing was lost, and nothing counted twice: all that was acknowledged is in the views.
ask "SELECT (SELECT count(*) FROM swipes) AS swipes, (SELECT sum(likes + dislikes) FROM stats) AS counted,
  (SELECT count(*) FROM matches) AS users_with_matches, (SELECT count(*) FROM mutual) AS mutual"
finish
