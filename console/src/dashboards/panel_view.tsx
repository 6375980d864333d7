/** A panel of a dashboard: its content by the kind of its source, and the line that says how current it is. */
import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { type Drawing, LineChart, Tiles } from '../chart.tsx';
import { serverNow } from '../client.ts';
import { formatBytes, formatClock, formatNumber, zoneName } from '../format.ts';
import { getJson } from '../objects.ts';
import { type Currency, ProblemBox, shown } from '../parts.tsx';
import type { Problem, Question } from '../protocol.ts';
import { lossesOf, phaseOf } from '../result.tsx';
import { zone } from '../settings.ts';
import { type Pane, look } from '../tabs.ts';
import { Icon, announce, useElement, useInSight } from '../ui.tsx';
import { type Panel, type Source, nameOf } from './document.ts';
import { Markdown } from './markdown_view.tsx';
import { metricsPicture, metricsTiles } from './metrics_lines.ts';
import { type Asked, type Live, type Surround, useAnswerPane, useLivePane, usePolled, useQuestion } from './panel_data.ts';
import { Gauge, PanelPicture, chartHeight, formOf, optionsOf, useSize } from './panel_picture.tsx';
import { askAgain } from './panes.ts';
import { rangeOf } from './variables.ts';

interface Room {
  width: number;
  height: number;
  seen: boolean;
}

interface Shown<S extends Source> {
  panel: Panel & { source: S };
  surround: Surround;
  room: Room;
}

export function PanelContent({ panel, surround }: { panel: Panel; surround: Surround }): JSX.Element {
  const [box, setBox] = useElement<HTMLDivElement>();
  const { width, height } = useSize(box);
  const seen = useInSight(box);
  const { source } = panel;
  const given = { surround, room: { width, height, seen } };
  return (
    <div class="dash-content" ref={setBox}>
      {source.kind === 'text' ? (
        <Scrolled name={nameOf(panel)}>
          <Markdown text={source.markdown} />
        </Scrolled>
      ) : source.kind === 'live' ? (
        <LivePanel panel={{ ...panel, source }} {...given} />
      ) : source.kind === 'metrics' ? (
        <MetricsPanel panel={{ ...panel, source }} {...given} />
      ) : (
        <AnswerPanel panel={{ ...panel, source }} {...given} />
      )}
    </div>
  );
}

/** The part of a panel that scrolls; it takes the focus so that keys can scroll it. */
function Scrolled({ name, children }: { name: string; children: ComponentChildren }): JSX.Element {
  return (
    <div class="dash-body" role="region" aria-label={`Content of ${shown(name)}`} tabIndex={0}>
      {children}
    </div>
  );
}

function State({ children }: { children: ComponentChildren }): JSX.Element {
  return (
    <div class="dash-state" role="group" aria-label="State">
      {children}
    </div>
  );
}

/** Says in words what changes for a panel as a whole: a failure, or the end of one. */
function useSpoken(name: string, problem: Problem | null): void {
  const failed = problem !== null;
  const before = useRef(false);
  useEffect(() => {
    if (failed !== before.current) announce(failed ? `${shown(name)} failed: ${shown(problem?.detail ?? problem?.title ?? '', 300)}` : `${shown(name)} is current again.`);
    before.current = failed;
  }, [failed]);
}

/** A pane is drawn while it is on screen, at its own width. */
function useRoom(pane: Pane, { width, seen }: Room): void {
  useEffect(() => look(pane, { visible: seen }), [pane, seen]);
  useEffect(() => {
    if (width > 0 && Math.abs(width - pane.view.value.width) > 32) look(pane, { width });
  }, [pane, width]);
}

function LivePanel({ panel, surround, room }: Shown<Live>): JSX.Element {
  const question = useQuestion(panel.source, surround);
  return question === null ? <p class="dim">Asking…</p> : <LiveResult panel={panel} question={question} room={room} />;
}

function LiveResult({ panel, question, room }: { panel: Panel; question: Question; room: Room }): JSX.Element {
  const options = optionsOf(panel);
  const shape = panel.show?.as ?? 'auto';
  const pane = useLivePane(question, formOf(shape), options.measure);
  useRoom(pane, room);
  const picture = pane.picture.value;
  const status = picture?.status ?? null;
  useSpoken(nameOf(panel), status?.problem ?? null);
  return (
    <>
      <Scrolled name={nameOf(panel)}>
        {status !== null && status.problem !== null && <ProblemBox problem={status.problem} quiet />}
        {status !== null && status.warnings.length > 0 && <p class="note">{status.warnings.map((text) => shown(text, 300)).join(' ')}</p>}
        {picture === null ? <p class="dim">Asking…</p> : picture.window === null && status?.problem === null ? <p class="dim">Waiting for the first result…</p> : <PanelPicture pane={pane} picture={picture} shape={shape} options={options} height={room.height} />}
      </Scrolled>
      {picture !== null && <LiveState pane={pane} question={question} />}
    </>
  );
}

/** As on Ask; counts of what is missing are shown from the first one on. */
function LiveState({ pane, question }: { pane: Pane; question: Question }): JSX.Element | null {
  const status = pane.picture.value?.status;
  if (status === undefined) return null;
  const phase = phaseOf(pane, status);
  const gap = status.gaps[status.gaps.length - 1];
  const over = status.phase === 'ended' || status.phase === 'failed';
  return (
    <State>
      <span class={`phase ${phase.kind}`}>
        <i aria-hidden="true" />
        {phase.text}
      </span>
      {lossesOf(status).filter(([name, count]) => count > 0 || name === 'dropped' || name === 'late').map(([name, count, help]) => (
        <span key={name} class={count > 0 ? 'count lost' : 'count'} title={help}>
          {count > 0 && <Icon name="warn" />}
          {name} <b>{formatNumber(count)}</b>
        </span>
      ))}
      {gap !== undefined && (
        <span class="count lost">
          <Icon name="warn" />
          gap before {formatClock(gap.at, zone())}: {shown(gap.reason)}
        </span>
      )}
      {pane.view.value.at !== null && (
        <button type="button" class="quiet" onClick={() => look(pane, { at: null, from: 0 })}>
          Resume
        </button>
      )}
      {over && (
        <button type="button" class="quiet" onClick={() => askAgain(question)}>
          Ask again
        </button>
      )}
    </State>
  );
}

/** The state of a source that is read again and again. */
function ReadState({ read }: { read: Currency & { at: number | null } }): JSX.Element {
  const time = (ms: number) => `${formatClock(ms, zone())} ${zoneName(ms, zone())}`;
  if (read.problem !== null) {
    return (
      <State>
        <span class={read.staleSince === null ? 'phase bad' : 'phase warn'}>
          <i aria-hidden="true" />
          {read.staleSince === null ? 'Failed' : `Stale since ${time(read.staleSince)}`}
        </span>
        <button type="button" class="quiet" onClick={read.again}>
          Try again
        </button>
      </State>
    );
  }
  return (
    <State>
      <span class="phase calm">
        <i aria-hidden="true" />
        {read.at === null ? 'Reading' : `Read at ${time(read.at)}`}
      </span>
    </State>
  );
}

function AnswerPanel({ panel, surround, room }: Shown<Asked>): JSX.Element {
  const options = optionsOf(panel);
  const shape = panel.show?.as ?? 'auto';
  const { pane, read } = useAnswerPane(panel, surround, formOf(shape), options.measure, room.seen);
  useRoom(pane, room);
  useSpoken(nameOf(panel), read.problem);
  const picture = pane.picture.value;
  const unreadable = picture?.status.problem ?? null;
  const empty = picture !== null && picture.window === null && unreadable === null;
  return (
    <>
      <Scrolled name={nameOf(panel)}>
        {read.problem !== null && <ProblemBox problem={read.problem} quiet />}
        {unreadable !== null && <ProblemBox problem={unreadable} quiet />}
        {picture === null && read.problem === null && <p class="dim">Reading…</p>}
        {picture !== null && (empty || picture.window?.rows === 0) && <p class="dim">No rows.</p>}
        {picture !== null && !empty && picture.window?.rows !== 0 && <PanelPicture pane={pane} picture={picture} shape={shape} options={options} height={room.height} />}
      </Scrolled>
      <ReadState read={read} />
    </>
  );
}

function MetricsPanel({ panel, surround, room }: Shown<Extract<Source, { kind: 'metrics' }>>): JSX.Element {
  const [picture, setPicture] = useState<ReturnType<typeof metricsPicture> | null>(null);
  const drawing: Drawing = useRef(null);
  const { families } = panel.source;
  const key = JSON.stringify([families, surround.time]);
  const call = `v1/metrics/history?${new URLSearchParams({ name: families.join(',') })}`;
  const read = usePolled(key, panel.refresh_ms ?? surround.refreshMs, room.seen, (signal) => getJson(call, signal), (data) => {
    const { from, to } = rangeOf(surround.time, serverNow());
    setPicture(metricsPicture(data, families, from, to, room.width));
  });
  useSpoken(nameOf(panel), read.problem);
  const shape = panel.show?.as ?? 'auto';
  const form = shape === 'area' || shape === 'stacked' ? shape : 'line';
  const lines = picture?.lines;
  const unit = picture?.unit ?? null;
  const write = (value: number) => `${formatBytes(value)}${unit === 'bytes/s' ? '/s' : ''}`;
  const title = families.map((name) => shown(name)).join(', ');
  return (
    <>
      <Scrolled name={nameOf(panel)}>
        {read.problem !== null && <ProblemBox problem={read.problem} quiet />}
        {lines === undefined && read.problem === null && <p class="dim">Reading…</p>}
        {lines !== undefined && lines.series.length === 0 && <p class="dim">The server has no values of {title} in this time.</p>}
        {lines !== undefined && lines.series.length > 0 && (
          shape === 'gauge' ? <Gauge tile={metricsTiles(lines)[0]} options={optionsOf(panel)} />
          : shape === 'value' ? <Tiles tiles={metricsTiles(lines)} title={title} asTable={false} drawing={drawing} />
          : <LineChart picture={lines} form={form} title={title} asTable={shape === 'table'} drawing={drawing} height={chartHeight(room.height)} of="seconds" bands={shape === 'bands'} {...(unit === null ? {} : { write })} />
        )}
        {picture !== null && picture.left > 0 && <p class="note">{formatNumber(picture.left)} more curves are not drawn.</p>}
      </Scrolled>
      <ReadState read={read} />
    </>
  );
}
