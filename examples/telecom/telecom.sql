-- Records of probes in a telephone network: flattened as they come, and rolled up every five minutes of their own time.

-- 62 dimensions and 20 measures lie in nested objects; here each is a column. What is no column stays in the record's text.
CREATE STREAM probes (
  seq LONG NOT NULL, tsStart TIMESTAMP(ms) NOT NULL, tsEnd TIMESTAMP(ms) NOT NULL,
  probe_id STRING PATH 'probe.id', probe_vendor STRING PATH 'probe.vendor', probe_sw STRING PATH 'probe.sw',
  probe_site STRING PATH 'probe.site', probe_link STRING PATH 'probe.link',
  probe_iface STRING PATH 'probe.iface', rec_type STRING PATH 'rec.type',
  rec_procedure STRING PATH 'rec.procedure', rec_close STRING PATH 'rec.close',
  sub_hash STRING PATH 'sub.hash', sub_segment STRING PATH 'sub.segment', sub_plan STRING PATH 'sub.plan',
  sub_contract STRING PATH 'sub.contract', sub_homeMcc INT PATH 'sub.homeMcc',
  sub_homeMnc INT PATH 'sub.homeMnc', sub_roaming BOOLEAN PATH 'sub.roaming', dev_tac INT PATH 'dev.tac',
  dev_vendor STRING PATH 'dev.vendor', dev_model STRING PATH 'dev.model', dev_os STRING PATH 'dev.os',
  dev_osVer STRING PATH 'dev.osVer', dev_type STRING PATH 'dev.type', dev_volte BOOLEAN PATH 'dev.volte',
  dev_cat INT PATH 'dev.cat', radio_rat STRING PATH 'radio.rat', radio_mcc INT PATH 'radio.mcc',
  radio_mnc INT PATH 'radio.mnc', radio_tac INT PATH 'radio.tac', radio_enb INT PATH 'radio.enb',
  radio_cell INT PATH 'radio.cell', radio_sector INT PATH 'radio.sector', radio_band INT PATH 'radio.band',
  radio_earfcn INT PATH 'radio.earfcn', radio_cellType STRING PATH 'radio.cellType',
  radio_vendor STRING PATH 'radio.vendor', radio_region STRING PATH 'radio.region',
  core_mme STRING PATH 'core.mme', core_sgw STRING PATH 'core.sgw', core_pgw STRING PATH 'core.pgw',
  core_pcrf STRING PATH 'core.pcrf', core_apn STRING PATH 'core.apn',
  core_pdnType STRING PATH 'core.pdnType', core_qci INT PATH 'core.qci', core_arp INT PATH 'core.arp',
  core_bearer STRING PATH 'core.bearer', svc_app STRING PATH 'svc.app', svc_cat STRING PATH 'svc.cat',
  svc_proto STRING PATH 'svc.proto', svc_l4 STRING PATH 'svc.l4', svc_host STRING PATH 'svc.host',
  svc_cdn STRING PATH 'svc.cdn', svc_tls STRING PATH 'svc.tls', svc_httpClass STRING PATH 'svc.httpClass',
  svc_video BOOLEAN PATH 'svc.video', svc_country STRING PATH 'svc.country', svc_asn INT PATH 'svc.asn',
  out_status STRING PATH 'out.status', out_layer STRING PATH 'out.layer', out_cause INT PATH 'out.cause',
  out_sub INT PATH 'out.sub', out_stage STRING PATH 'out.stage', out_retry BOOLEAN PATH 'out.retry',
  bytesUl LONG PATH 'meas.bytesUl', bytesDl LONG PATH 'meas.bytesDl', pktsUl LONG PATH 'meas.pktsUl',
  pktsDl LONG PATH 'meas.pktsDl', durMs LONG PATH 'meas.durMs', setupMs LONG PATH 'meas.setupMs',
  ttfbMs LONG PATH 'meas.ttfbMs', dnsMs LONG PATH 'meas.dnsMs', rttCliMs LONG PATH 'meas.rttCliMs',
  rttSrvMs LONG PATH 'meas.rttSrvMs', retxUl LONG PATH 'meas.retxUl', retxDl LONG PATH 'meas.retxDl',
  ooo LONG PATH 'meas.ooo', zeroWin LONG PATH 'meas.zeroWin', attempts LONG PATH 'meas.attempts',
  successes LONG PATH 'meas.successes', drops LONG PATH 'meas.drops', handovers LONG PATH 'meas.handovers',
  hoFails LONG PATH 'meas.hoFails', radioActiveMs LONG PATH 'meas.radioActiveMs',
  WATERMARK FOR tsEnd AS tsEnd - INTERVAL '5 seconds'
);

-- The published pattern, each dimension in brackets of its own: 62 independent rollups, so 1,240 sums a record. A row has
-- the value of one dimension and nulls for the others; `dimensions` has a bit for each that is not in its set.
CREATE MATERIALIZED VIEW rollups WITH (retention = '1 hour') AS
  SELECT window_start, GROUPING_ID() AS dimensions,
         probe_id, probe_vendor, probe_sw, probe_site, probe_link, probe_iface, rec_type, rec_procedure,
         rec_close, sub_hash, sub_segment, sub_plan, sub_contract, sub_homeMcc, sub_homeMnc, sub_roaming,
         dev_tac, dev_vendor, dev_model, dev_os, dev_osVer, dev_type, dev_volte, dev_cat, radio_rat,
         radio_mcc, radio_mnc, radio_tac, radio_enb, radio_cell, radio_sector, radio_band, radio_earfcn,
         radio_cellType, radio_vendor, radio_region, core_mme, core_sgw, core_pgw, core_pcrf, core_apn,
         core_pdnType, core_qci, core_arp, core_bearer, svc_app, svc_cat, svc_proto, svc_l4, svc_host,
         svc_cdn, svc_tls, svc_httpClass, svc_video, svc_country, svc_asn, out_status, out_layer, out_cause,
         out_sub, out_stage, out_retry,
         COUNT(*) AS records,
         SUM(bytesUl) AS bytesUl, SUM(bytesDl) AS bytesDl, SUM(pktsUl) AS pktsUl, SUM(pktsDl) AS pktsDl,
         SUM(durMs) AS durMs, SUM(setupMs) AS setupMs, SUM(ttfbMs) AS ttfbMs, SUM(dnsMs) AS dnsMs,
         SUM(rttCliMs) AS rttCliMs, SUM(rttSrvMs) AS rttSrvMs, SUM(retxUl) AS retxUl, SUM(retxDl) AS retxDl,
         SUM(ooo) AS ooo, SUM(zeroWin) AS zeroWin, SUM(attempts) AS attempts, SUM(successes) AS successes,
         SUM(drops) AS drops, SUM(handovers) AS handovers, SUM(hoFails) AS hoFails,
         SUM(radioActiveMs) AS radioActiveMs
  FROM STREAM(probes)
  GROUP BY GROUPING SETS (
    probe_id, probe_vendor, probe_sw, probe_site, probe_link, probe_iface, rec_type, rec_procedure,
    rec_close, sub_hash, sub_segment, sub_plan, sub_contract, sub_homeMcc, sub_homeMnc, sub_roaming, dev_tac,
    dev_vendor, dev_model, dev_os, dev_osVer, dev_type, dev_volte, dev_cat, radio_rat, radio_mcc, radio_mnc,
    radio_tac, radio_enb, radio_cell, radio_sector, radio_band, radio_earfcn, radio_cellType, radio_vendor,
    radio_region, core_mme, core_sgw, core_pgw, core_pcrf, core_apn, core_pdnType, core_qci, core_arp,
    core_bearer, svc_app, svc_cat, svc_proto, svc_l4, svc_host, svc_cdn, svc_tls, svc_httpClass, svc_video,
    svc_country, svc_asn, out_status, out_layer, out_cause, out_sub, out_stage, out_retry)
  WINDOWING TUMBLING(INTERVAL '5 minutes', EVENT);

-- What people look at: chosen sets together, and the grand total.
CREATE MATERIALIZED VIEW chosen WITH (retention = '1 day') AS
  SELECT window_start, radio_region, radio_enb, radio_cell, svc_app, svc_cat, dev_vendor, dev_model, out_cause,
         COUNT(*) AS records, SUM(bytesUl + bytesDl) AS bytes, SUM(drops) AS drops, SUM(attempts) AS attempts,
         SUM(successes) AS successes, AVG(rttSrvMs) AS rttSrvMs, APPROX_PERCENTILE_CONT(ttfbMs, 0.95) AS ttfbMs_p95
  FROM STREAM(probes)
  GROUP BY GROUPING SETS ((radio_cell, svc_app), (radio_region, svc_cat), (dev_vendor, dev_model), (radio_enb, out_cause), ())
  WINDOWING TUMBLING(INTERVAL '5 minutes', EVENT);

-- Each window, when it is closed, onto a stream and into a table.
CREATE STREAM rollup_rows WITH (store = true);
CREATE SINK rollups_out FROM rollups INTO STREAM rollup_rows;
CREATE TABLE chosen_rows (
  window_start BIGINT, radio_region VARCHAR, radio_enb INT, radio_cell INT, svc_app VARCHAR, svc_cat VARCHAR,
  dev_vendor VARCHAR, dev_model VARCHAR, out_cause INT, records BIGINT, bytes BIGINT, drops BIGINT, attempts BIGINT,
  successes BIGINT, rttSrvMs DOUBLE, ttfbMs_p95 DOUBLE
);
CREATE SINK chosen_out FROM chosen INTO TABLE chosen_rows;
