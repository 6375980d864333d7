/** A result on screen: the choice of its form, the windows to step through, the picture, and the one line that hides no loss. */
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { BarChart, type Drawing, HeatMap, LineChart, Tiles } from './chart.tsx';
import { documentBase, request } from './client.ts';
import { copyAs, type Format } from './export.ts';
import { formatBytes, formatClock, formatDuration, formatNumber, formatShort, formatTime, zoneName } from './format.ts';
import { type Form, FORMS, writeFragment } from './fragment.ts';
import { KeepMenu } from './keep_menu.tsx';
import { OntoDashboard } from './onto_dashboard.tsx';
import type { Picture, Status } from './picture.ts';
import { browserZone, chosenZone, letterKeys, zone } from './settings.ts';
import { copyLink } from './short_links.tsx';
import { ResultTable, isTyping } from './table.tsx';
import { type Pane, type Tab, chooseForm, look, pause, questionOf, step } from './tabs.ts';
import { visible } from './text.ts';
import { Icon, Menu, announce, copyText, download, toast, useElement, useInSight, useWidth } from './ui.tsx';

const NAMES: { [form in Form]: string } = {
  table: 'Table',
  json: 'JSON',
  line: 'Lines',
  area: 'Area',
  bar: 'Bars',
  stacked: 'Stacked',
  histogram: 'Histogram',
  value: 'Value',
  heat: 'Heat map',
  top: 'Top',
};

const PLAY_MS = 400;
const EXPORT_ROWS_MAX = 1_000_000;

export function Result({ tab }: { tab: Tab }): JSX.Element | null {
  const picture = tab.picture.value;
  const drawing: Drawing = useRef(null);
  const [box, setBox] = useElement<HTMLElement>();
  const seen = useInSight(box);
  const [asTable, setAsTable] = useState(false);
  const width = useWidth(box);
  useEffect(() => {
    if (width > 0 && Math.abs(width - tab.view.value.width) > 32) look(tab, { width });
  }, [width]);
  useEffect(() => look(tab, { visible: seen }), [seen]);
  usePlaying(tab);
  useSpokenPhase(picture?.status ?? null);
  useEffect(() => {
    const key = (event: KeyboardEvent) => {
      if (event.key !== ' ' || !letterKeys.value || isTyping(event.target)) return;
      if (event.target instanceof Element && event.target.closest('button, summary, a, dialog') !== null) return;
      event.preventDefault();
      pause(tab);
    };
    document.addEventListener('keydown', key);
    return () => document.removeEventListener('keydown', key);
  }, [tab]);

  if (tab.asked.value === null) return null;
  return (
    <section ref={setBox} class="result panel" aria-label="Result">
      {picture === null ? (
        <p class="waiting">Asking…</p>
      ) : (
        <>
          <Toolbar tab={tab} picture={picture} drawing={drawing} asTable={asTable} setAsTable={setAsTable} />
          {picture.status.windowed && <Windows tab={tab} picture={picture} />}
          <StatusLine tab={tab} picture={picture} />
          <Body tab={tab} picture={picture} drawing={drawing} asTable={asTable} />
        </>
      )}
    </section>
  );
}

function usePlaying(tab: Tab): void {
  const playing = tab.playing.value;
  useEffect(() => {
    if (!playing) return;
    const timer = setInterval(() => {
      const picture = tab.picture.value;
      if (picture === null) return;
      const next = (tab.view.value.at ?? picture.status.last) + 1;
      if (next > picture.status.last) {
        tab.playing.value = false;
        look(tab, { at: null });
      } else {
        step(tab, next);
      }
    }, PLAY_MS);
    return () => clearInterval(timer);
  }, [playing, tab]);
}

/** Says when a result fails, ends, or goes stale; not each change of its numbers. */
function useSpokenPhase(status: Status | null): void {
  const phase = status?.phase ?? null;
  useEffect(() => {
    if (status === null) return;
    if (phase === 'failed') announce(`The query failed: ${status.problem?.detail ?? status.problem?.title ?? ''}`);
    if (phase === 'ended') announce(`The query has ended: ${endText(status.endedReason)}`);
    if (phase === 'stale') announce('The connection is lost. The result is stale.');
    if (phase === 'live') announce('The result is live.');
  }, [phase]);
}

function Toolbar(props: {
  tab: Tab;
  picture: Picture;
  drawing: Drawing;
  asTable: boolean;
  setAsTable(on: boolean): void;
}): JSX.Element {
  const { tab, picture } = props;
  const chosen = tab.view.value.form;
  const numbers = picture.measures.length > 0;
  const isChart = picture.form !== 'table' && picture.form !== 'json';
  return (
    <div class="bar toolbar">
      <div class="forms" role="group" aria-label="Show as">
        {FORMS.map((form) => (
          <button
            key={form}
            type="button"
            aria-pressed={picture.form === form}
            disabled={!numbers && form !== 'table' && form !== 'json'}
            title={form === picture.suits ? `${NAMES[form]}: suits this result` : NAMES[form]}
            onClick={() => chooseForm(tab, form === picture.suits ? null : form)}
          >
            {NAMES[form]}
            {form === picture.suits && chosen !== null && chosen !== form && <span aria-hidden="true"> ·</span>}
          </button>
        ))}
      </div>
      {isChart && picture.measures.length > 1 && picture.form !== 'value' && (
        <label class="select">
          <span>Number</span>
          <select
            value={picture.form === 'line' && tab.view.value.measure === null && !hasKeys(picture) ? '' : (picture.measure ?? '')}
            onChange={(event) => look(tab, { measure: event.currentTarget.value || null })}
          >
            {!hasKeys(picture) && <option value="">all</option>}
            {picture.measures.map((name) => (
              <option key={name} value={name}>
                {visible(name)}
              </option>
            ))}
          </select>
        </label>
      )}
      <span class="spring" />
      {isChart && picture.form !== 'heat' && (
        <button type="button" class="quiet" aria-pressed={props.asTable} onClick={() => props.setAsTable(!props.asTable)}>
          As table
        </button>
      )}
      <ExportMenu tab={tab} picture={picture} drawing={props.drawing} />
      <CopyAsMenu tab={tab} />
      <KeepMenu tab={tab} />
      <OntoDashboard tab={tab} picture={picture} />
    </div>
  );
}

const hasKeys = (picture: Picture) => picture.columns.some((column) => column.role === 'key' || column.role === 'point');

function ExportMenu({ tab, picture, drawing }: { tab: Tab; picture: Picture; drawing: Drawing }): JSX.Element {
  const types: { [format in Format]: string } = { csv: 'text/csv', tsv: 'text/tab-separated-values', json: 'application/json', ndjson: 'application/x-ndjson' };
  const save = async (format: Format) => {
    const parts = await request({ do: 'rows', result: tab.id, view: tab.view.value, format, most: EXPORT_ROWS_MAX });
    if (parts !== null) download(`result.${format}`, parts, types[format]);
  };
  const savePicture = () => {
    const canvas = drawing.current?.() ?? null;
    if (canvas === null) toast('There is no chart on screen.');
    else canvas.toBlob((blob) => blob !== null && download('chart.png', [blob], 'image/png'), 'image/png');
  };
  return (
    <Menu label="Export" quiet>
      {(close) => (
        <>
          {(['csv', 'json', 'ndjson'] as const).map((format) => (
            <button key={format} type="button" onClick={() => (close(), void save(format))}>
              Rows as {format.toUpperCase()}
            </button>
          ))}
          {picture.form !== 'table' && picture.form !== 'json' && (
            <button type="button" onClick={() => (close(), savePicture())}>
              Chart as PNG
            </button>
          )}
        </>
      )}
    </Menu>
  );
}

function CopyAsMenu({ tab }: { tab: Tab }): JSX.Element {
  const server = documentBase.replace(/\/$/, '');
  const fragment = () => {
    const question = questionOf(tab);
    const { form, measure } = tab.view.value;
    return writeFragment({
      page: 'ask',
      text: question.text,
      dialect: question.dialect,
      parameters: question.parameters.length > 0 ? tab.parameters.value.slice(0, question.parameters.length) : [],
      zone: chosenZone.value ?? browserZone,
      ...(form === null ? {} : { form }),
      ...(measure === null ? {} : { measure }),
    });
  };
  return (
    <Menu label="Share" quiet>
      {(close) => (
        <>
          <button type="button" onClick={() => (close(), void copyLink(fragment()))}>
            Copy link
          </button>
          {(['curl', 'cli', 'python'] as const).map((kind) => (
            <button key={kind} type="button" onClick={() => (close(), void copyText(copyAs(kind, server, questionOf(tab)), kind))}>
              Copy as {kind === 'cli' ? 'command line' : kind === 'python' ? 'Python' : kind}
            </button>
          ))}
        </>
      )}
    </Menu>
  );
}

function Windows({ tab, picture }: { tab: Tab; picture: Picture }): JSX.Element {
  const { status, window } = picture;
  const at = tab.view.value.at;
  const shown = window?.sequence ?? status.last;
  const live = at === null;
  const timeZone = zone();
  const times =
    window === null || window.end === null
      ? ''
      : `${window.start === null ? '' : `${formatClock(window.start, timeZone, true)} – `}${formatClock(window.end, timeZone, true)} ${zoneName(window.end, timeZone)}`;
  return (
    <div class="bar windows" role="group" aria-label="Windows">
      <button type="button" class="quiet" aria-label="Previous window" disabled={shown <= status.first} onClick={() => step(tab, shown - 1)}>
        <Icon name="back" />
      </button>
      <button type="button" class="quiet" aria-label="Next window" disabled={live || shown >= status.last} onClick={() => step(tab, shown + 1)}>
        <Icon name="forward" />
      </button>
      <button
        type="button"
        class="quiet"
        aria-label={tab.playing.value ? 'Stop playing' : 'Play windows'}
        disabled={status.last <= status.first}
        onClick={() => {
          if (!tab.playing.value && live) step(tab, status.first);
          tab.playing.value = !tab.playing.value;
        }}
      >
        <Icon name={tab.playing.value ? 'stop' : 'run'} />
      </button>
      <input
        type="range"
        aria-label="Window"
        aria-valuetext={`window ${shown + 1}${times === '' ? '' : `, ${times}`}`}
        min={status.first}
        max={Math.max(status.first, status.last)}
        value={shown}
        onInput={(event) => step(tab, Number(event.currentTarget.value))}
      />
      <button type="button" class={live ? 'quiet' : 'primary'} disabled={live} onClick={() => ((tab.playing.value = false), look(tab, { at: null }))}>
        Back to live
      </button>
      <span class="window-time">
        Window {formatNumber(shown + 1)}
        {times !== '' && <span class="dim"> · {times}</span>}
      </span>
    </div>
  );
}

export function endText(reason: string | null): string {
  const texts: { [reason: string]: string } = {
    client: 'stopped',
    killed: 'ended by someone',
    duration: 'its duration is over',
    limit: 'its limit is reached',
    finished: 'finished',
    end_of_input: 'the input has ended',
    shutdown: 'the server was shut down',
    rate_limited: 'too many results',
    failed: 'failed',
    saved: 'the answer of an earlier visit',
  };
  return texts[reason ?? ''] ?? reason ?? 'finished';
}

export function phaseOf(tab: Pane, status: Status): { kind: string; text: string } {
  const paused = tab.view.value.at !== null;
  if (status.phase === 'failed') return { kind: 'bad', text: 'Failed' };
  if (status.phase === 'stale') return { kind: 'warn', text: `Stale since ${formatTime(status.staleSince ?? Date.now(), zone())}` };
  if (status.phase === 'ended') return { kind: 'calm', text: `Ended: ${endText(status.endedReason)}` };
  if (status.phase === 'asking') return { kind: 'calm', text: 'Asking' };
  const behind = status.last - (tab.view.value.at ?? status.last);
  if (paused) return { kind: 'calm', text: `Paused${status.windowed && behind > 0 ? `, ${behind} windows behind` : ''}` };
  return { kind: 'good', text: 'Live' };
}

/** What a result does not have: name, number, and the reason. */
export function lossesOf({ counts }: Status): Array<[string, number, string]> {
  const losses: Array<[string, number, string]> = [
    ['dropped', counts.dropped, 'results that this page was too slow to take'],
    ['late', counts.late, 'events behind the watermark, not counted'],
    ['mistyped', counts.mistyped, 'values of another type than the query needs'],
    ['errors', counts.expression_errors, 'expressions that could not be computed'],
  ];
  if (counts.thinned > 0) losses.push(['thinned', counts.thinned, 'records left out evenly, because there were too many to show']);
  return losses;
}

function StatusLine({ tab, picture }: { tab: Tab; picture: Picture }): JSX.Element {
  const { status } = picture;
  const phase = phaseOf(tab, status);
  const { rates } = status;
  const losses = lossesOf(status);
  const held = status.last - status.first + 1;
  return (
    <div class="status" role="group" aria-label="State of the result">
      <span class={`phase ${phase.kind}`}>
        <i aria-hidden="true" />
        {phase.text}
      </span>
      {losses.map(([name, count, help]) => (
        <span key={name} class={count > 0 ? 'count lost' : 'count'} title={help}>
          {count > 0 && <Icon name="warn" />}
          {name} <b>{formatNumber(count)}</b>
        </span>
      ))}
      {status.lagMs !== null && (
        <span class="count" title="age of the oldest event that the server has not processed">
          lag <b>{formatDuration(status.lagMs)}</b>
        </span>
      )}
      {rates !== null && (
        <>
          <span class="count" title="events that the query saw">
            in <b>{formatShort(rates.in)}/s</b>
          </span>
          <span class="count" title="rows that came to this page">
            out <b>{formatShort(rates.out)}/s</b>
          </span>
        </>
      )}
      <span class="count" title={`in memory: ${formatBytes(status.bytes)}`}>
        {status.windowed ? 'windows' : 'rows'} held <b>{formatNumber(status.windowed ? held : status.rows)}</b>
        {status.evicted > 0 && ` (${formatNumber(status.evicted)} older ${status.windowed ? 'ones' : 'batches'} left memory)`}
      </span>
      {status.columnsLeftOut > 0 && <span class="count lost">columns are left out</span>}
      {status.gaps.map((gap, i) => (
        <span key={i} class="count lost">
          <Icon name="warn" />
          gap before {formatClock(gap.at, zone())} {zoneName(gap.at, zone())}: {gap.reason}
        </span>
      ))}
      {status.estimates.map((text) => (
        <span key={text} class="count">
          {visible(text)}
        </span>
      ))}
    </div>
  );
}

function Body({ tab, picture, drawing, asTable }: { tab: Tab; picture: Picture; drawing: Drawing; asTable: boolean }): JSX.Element {
  const { status } = picture;
  const title = titleOf(picture);
  drawing.current = null;
  return (
    <div class="body">
      {status.problem !== null && (
        <div class="problem" role="group" aria-label="Problem">
          <Icon name="warn" />
          <div>
            <b>{visible(status.problem.title)}</b>
            {status.problem.detail !== undefined && <p>{visible(status.problem.detail)}</p>}
            {status.problem.line !== undefined && (
              <p class="dim">
                Line {status.problem.line}, column {status.problem.column ?? 1}
              </p>
            )}
            {status.problem.hint !== undefined && <p>{visible(status.problem.hint)}</p>}
          </div>
        </div>
      )}
      {status.warnings.length > 0 && (
        <ul class="warnings" aria-label="Warnings">
          {status.warnings.map((text) => (
            <li key={text}>
              <Icon name="warn" />
              {visible(text)}
            </li>
          ))}
        </ul>
      )}
      {picture.window === null && status.phase === 'live' && <p class="waiting">Waiting for the first result…</p>}
      {picture.window === null && status.phase === 'ended' && <p class="waiting">No result.</p>}
      {picture.table !== null && <ResultTable tab={tab} picture={picture} table={picture.table} />}
      {picture.json !== null && (
        <pre class="json" tabIndex={0} role="region" aria-label={`JSON of ${picture.json.records} records`}>
          {picture.json.lines.map((line) => visible(line)).join('\n')}
        </pre>
      )}
      {picture.lines !== null && <LineChart picture={picture.lines} form={picture.form} title={title} asTable={asTable} drawing={drawing} />}
      {picture.bars !== null && <BarChart picture={picture.bars} title={title} asTable={asTable} drawing={drawing} />}
      {picture.heat !== null && <HeatMap picture={picture.heat} title={title} drawing={drawing} />}
      {picture.tiles !== null && <Tiles tiles={picture.tiles} title={title} asTable={asTable} drawing={drawing} />}
      {picture.note !== '' && <p class="note">{visible(picture.note)}</p>}
    </div>
  );
}

export function titleOf(picture: Picture): string {
  const keys = picture.columns.filter((column) => column.role === 'key' || column.role === 'range' || column.role === 'point').map((column) => column.name);
  const by = keys.length === 0 ? '' : ` by ${keys.join(' and ')}`;
  if (picture.form === 'value') return `Latest ${picture.measures.slice(0, 6).join(', ')}`;
  if (picture.form === 'histogram') return `Distribution${by}`;
  const measures = keys.length === 0 ? picture.measures.slice(0, 3).join(', ') : (picture.measure ?? '');
  return visible(`${measures}${by}`);
}
