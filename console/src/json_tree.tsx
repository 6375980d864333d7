/** A JSON value as a tree that opens level by level. Names and texts are made harmless, long lists are cut. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { formatNumber } from './format.ts';
import { type Json, formatJson } from './json.ts';
import { cut, visible } from './text.ts';

const CHILDREN_MAX = 200;
const DEPTH_OPEN = 2;
const DEPTH_MAX = 40;
const TEXT_MAX = 5000;

export function JsonTree({ value, label }: { value: Json; label: string }): JSX.Element {
  return (
    <div class="tree" role="region" aria-label={label} tabIndex={0}>
      <Node name={null} value={value} depth={0} />
    </div>
  );
}

function Node({ name, value, depth }: { name: string | null; value: Json; depth: number }): JSX.Element {
  const [most, setMost] = useState(CHILDREN_MAX);
  const title = name === null ? null : <span class="tree-name">{visible(cut(name, 200))}: </span>;
  if (value === null || typeof value !== 'object' || depth >= DEPTH_MAX) {
    return (
      <div class="tree-leaf">
        {title}
        <span class={`tree-${value === null ? 'null' : typeof value}`}>{leafText(value)}</span>
      </div>
    );
  }
  const list = Array.isArray(value);
  const children: Array<[string, Json]> = list ? value.map((child, i) => [String(i), child]) : Object.keys(value).map((key) => [key, value[key] as Json]);
  const count = `${formatNumber(children.length)} ${list ? (children.length === 1 ? 'element' : 'elements') : children.length === 1 ? 'member' : 'members'}`;
  return (
    <details open={depth < DEPTH_OPEN}>
      <summary>
        {title}
        <span class="dim">
          {list ? '[ ]' : '{ }'} {count}
        </span>
      </summary>
      <div class="tree-children">
        {children.slice(0, most).map(([key, child]) => (
          <Node key={key} name={key} value={child} depth={depth + 1} />
        ))}
        {children.length > most && (
          <button type="button" class="quiet" onClick={() => setMost(most + CHILDREN_MAX)}>
            {formatNumber(children.length - most)} more
          </button>
        )}
      </div>
    </details>
  );
}

function leafText(value: Json): string {
  const whole = typeof value === 'string' ? JSON.stringify(value) : formatJson(value);
  return whole.length > TEXT_MAX ? `${visible(cut(whole, TEXT_MAX))}… (${formatNumber(whole.length)} characters)` : visible(whole);
}
