"""Sends documents by the helpers of Elasticsearch's own client.

usage: send_bulk.py URL

crates/server/tests/server/clients.rs runs it.
"""

import sys
import urllib.request

from elasticsearch import BadRequestError, Elasticsearch
from elasticsearch.helpers import BulkIndexError, bulk, parallel_bulk, streaming_bulk

import checks
from checks import fails, same

URL = sys.argv[1]


def client(**options):
    return Elasticsearch(URL, request_timeout=30, **options)


def sql(text):
    request = urllib.request.Request(f"{URL}/v1/sql", text.encode(), {"accept": "text/csv"})
    with urllib.request.urlopen(request) as answer:
        return answer.read().decode().split()


def documents_become_events():
    sql("CREATE STREAM bulk_a (n LONG, t STRING, nested JSON)")
    documents = ({"_index": "bulk_a", "_source": {"n": n, "t": "ä", "nested": {"x": [n]}}} for n in range(2_500))
    same(bulk(client(), documents, chunk_size=400), (2_500, []))
    same(sql("SELECT count(*) AS c, sum(n) AS s, count(DISTINCT n) AS d FROM bulk_a"), ["c,s,d", "2500,3123750,2500"])


def ids_and_creates_are_answered():
    documents = [{"_op_type": "create", "_index": "bulk_a", "_id": f"k{n}", "n": n} for n in range(3)]
    answers = list(streaming_bulk(client(), documents))
    same([(ok, answer["create"]["_id"], answer["create"]["status"]) for ok, answer in answers],
         [(True, "k0", 201), (True, "k1", 201), (True, "k2", 201)])


def documents_are_packed():
    same(bulk(client(http_compress=True), [{"n": 1}] * 10, index="bulk_gzip"), (10, []))


def several_threads_send_at_once():
    documents = ({"n": n} for n in range(3_000))
    answers = list(parallel_bulk(client(), documents, index="bulk_threads", chunk_size=100, thread_count=4))
    same((len(answers), all(ok for ok, _ in answers)), (3_000, True))


def what_is_refused_is_told_one_by_one():
    sql("CREATE STREAM bulk_b (n LONG NOT NULL)")
    documents = [{"n": 1}, {"n": "x"}, {"m": 1}, {"n": 2}, {"_op_type": "delete", "_id": "k"}]
    error = fails(BulkIndexError, lambda: bulk(client(), documents, index="bulk_b"))
    told = [(action, item["status"], item["error"]["type"]) for one in error.errors for action, item in one.items()]
    same(told, [("index", 400, "document_parsing_exception"), ("index", 400, "document_parsing_exception"),
                ("delete", 400, "illegal_argument_exception")])
    assert "`n`" in error.errors[0]["index"]["error"]["reason"], error.errors
    answers = list(streaming_bulk(client(), documents[:4], index="bulk_b", raise_on_error=False))
    same([ok for ok, _ in answers], [True, False, False, True])
    same(sql("SELECT count(*) AS c, sum(n) AS s FROM bulk_b"), ["c,s", "4,6"])


def a_name_that_no_stream_can_have_is_refused():
    error = fails(BulkIndexError, lambda: bulk(client(), [{"n": 1}], index="no stream"))
    same(error.errors[0]["index"]["error"]["type"], "invalid_index_name_exception")


def a_request_that_cannot_be_read_is_refused_as_a_whole():
    error = fails(BadRequestError, lambda: client().bulk(body=b'{"indx": {}}\n{}\n'))
    same((error.status_code, error.error), (400, "illegal_argument_exception"))
    headers = {"content-encoding": "gzip", "content-type": "application/x-ndjson", "accept": "application/json"}
    error = fails(BadRequestError, lambda: client().perform_request("POST", "/_bulk", headers=headers, body=b"no gzip"))
    same((error.status_code, error.error), (400, "illegal_argument_exception"))


def the_client_finds_what_it_asks_for():
    found = client().info()
    same(found["version"]["number"].split(".")[0], "9")
    assert client().ping()


checks.run(
    the_client_finds_what_it_asks_for,
    documents_become_events,
    ids_and_creates_are_answered,
    documents_are_packed,
    several_threads_send_at_once,
    what_is_refused_is_told_one_by_one,
    a_name_that_no_stream_can_have_is_refused,
    a_request_that_cannot_be_read_is_refused_as_a_whole,
)
