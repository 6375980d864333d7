/** The editor of a question: its text, faults, parameters and buttons. The text is a plain field until the editor's own file is loaded. */
import { type Signal, effect, signal } from '@preact/signals';
import type { JSX } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { complete, functionsOf, loadFunctions } from './assistance.ts';
import { callAround } from './bql.ts';
import type { QueryEditor } from './editor.ts';
import { PARAMETERS_MAX, parameterCount } from './parameters.ts';
import { endOfToken, offsetOf, readPlace } from './places.ts';
import { SaveControls } from './saved_controls.tsx';
import { type Tab, pause, run, running, stop } from './tabs.ts';
import { cut, visible } from './text.ts';
import { Icon } from './ui.tsx';
import { type Fault, faults, faultsOf, marksOf, useValidation, validText } from './validation.ts';

const PLACEHOLDER = 'SELECT carrier, COUNT(*) AS n FROM STREAM(flights, MAX, TIME) GROUP BY carrier WINDOWING TUMBLING(1000, TIME)';
const FAULTS_SHOWN = 5;

type Module = typeof import('./editor.ts');
let loading: Promise<Module | null> | null = null;

/** The editor's file, beside this one; null if it cannot be loaded. */
function loadModule(): Promise<Module | null> {
  const address = new URL('editor.js', import.meta.url).href;
  loading ??= import(address).catch(() => {
    loading = null;
    return null;
  });
  return loading;
}

const nonce = (): string => document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content ?? '';

/** Undo histories and selections of tabs that are not on screen. */
const left = new WeakMap<Tab, unknown>();

export function Editor({ tab }: { tab: Tab }): JSX.Element {
  const area = useRef<HTMLTextAreaElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const [editor, setEditor] = useState<QueryEditor | null>(null);
  const [cursor] = useState(() => signal(0));
  const text = tab.text.value;
  const fault = faults.value.get(tab.id) ?? null;
  const isRunning = running(tab);
  const asked = tab.asked.value;
  const paused = tab.view.value.at !== null;
  const invalid = fault !== null && 'problem' in fault;
  useValidation(tab);
  useEditor(tab, area, box, setEditor, cursor);
  useEffect(() => void loadFunctions(tab.dialect.value), [tab.dialect.value]);
  // At once with each change: an effect of a render would be late, and take back what was typed since.
  useEffect(() => (editor === null ? undefined : effect(() => editor.setText(tab.text.value))), [editor]);
  useEffect(() => {
    // Marks of an earlier text stay where the editor has moved them, until the next answer.
    if (fault === null || fault.text === tab.text.peek()) editor?.setMarks(fault === null ? [] : marksOf(fault), invalid);
  }, [editor, fault]);
  useLayoutEffect(() => {
    const element = area.current;
    if (element === null) return;
    element.style.height = 'auto';
    element.style.height = `${Math.min(420, Math.max(96, element.scrollHeight + 2))}px`;
  }, [text]);
  const goTo = (line: number, column: number) => {
    const from = offsetOf(text, line, column);
    const to = endOfToken(text, from);
    if (editor !== null) {
      editor.select(from, to);
      return;
    }
    area.current?.focus();
    area.current?.setSelectionRange(from, to);
  };
  return (
    <section class="panel editor" aria-label="Question">
      {tab.origin.value !== 'reader' && (
        <p class="notice">
          This question came with a link{tab.origin.value === 'other site' ? ' on another site' : ''}. Nothing has run. Read it, then run it.
        </p>
      )}
      {editor === null && (
        <>
          <label class="unseen" for="text">
            Query
          </label>
          <textarea
            id="text"
            ref={area}
            value={text}
            spellcheck={false}
            autocomplete="off"
            autocapitalize="off"
            rows={4}
            placeholder={PLACEHOLDER}
            aria-invalid={invalid}
            aria-describedby="fault"
            onInput={(event) => {
              tab.text.value = event.currentTarget.value;
            }}
            onKeyDown={(event) => {
              if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
                event.preventDefault();
                run(tab);
              }
            }}
          />
        </>
      )}
      <div ref={box} class={invalid ? 'code bad' : 'code'} />
      {editor !== null && <FunctionLine tab={tab} cursor={cursor} />}
      <FaultLines fault={fault} goTo={goTo} />
      <Parameters tab={tab} />
      <div class="bar actions">
        <button type="button" class="primary" disabled={text.trim() === ''} onClick={() => run(tab)} title="Ctrl+Enter">
          <Icon name={asked === null ? 'run' : 'again'} />
          {asked === null ? 'Run' : 'Run again'}
        </button>
        <button type="button" disabled={!isRunning} onClick={() => stop(tab)}>
          <Icon name="stop" />
          Stop
        </button>
        <button type="button" disabled={tab.picture.value === null || (!isRunning && !paused)} aria-pressed={paused} onClick={() => pause(tab)} title="Space">
          <Icon name={paused ? 'run' : 'pause'} />
          {paused ? 'Resume' : 'Pause'}
        </button>
        <SaveControls tab={tab} />
        <span class="spring" />
        {asked !== null && asked.text !== text && <span class="dim">The result is of an earlier text.</span>}
        <label class="select">
          <span>Dialect</span>
          <select
            value={tab.dialect.value}
            onChange={(event) => {
              tab.dialect.value = event.currentTarget.value === 'bullet' ? 'bullet' : 'native';
            }}
          >
            <option value="native">BQL</option>
            <option value="bullet">Bullet's rules</option>
          </select>
        </label>
      </div>
    </section>
  );
}

/** Puts the editor in the place of the field once its file is there; text, selection and focus are taken over. */
function useEditor(
  tab: Tab,
  area: { current: HTMLTextAreaElement | null },
  box: { current: HTMLDivElement | null },
  setEditor: (editor: QueryEditor) => void,
  cursor: Signal<number>,
): void {
  useEffect(() => {
    let made: QueryEditor | null = null;
    let gone = false;
    let composing = false;
    let waiting: (() => void) | null = null;
    const field = area.current;
    const began = () => {
      composing = true;
    };
    const ended = () => {
      composing = false;
      waiting?.();
    };
    field?.addEventListener('compositionstart', began);
    field?.addEventListener('compositionend', ended);
    const begin = (module: Module) => {
      const parent = box.current;
      if (gone || parent === null || made !== null) return;
      let frame = 0;
      made = module.createEditor({
        parent,
        text: tab.text.value,
        selection: [field?.selectionStart ?? 0, field?.selectionEnd ?? 0],
        focused: field !== null && document.activeElement === field,
        nonce: nonce(),
        placeholder: PLACEHOLDER,
        saved: left.get(tab) ?? null,
        changed: (text) => {
          tab.text.value = text;
        },
        run: () => run(tab),
        complete: (text, cursor, signal) => complete(text, cursor, tab.dialect.value, signal),
        help: (name) => functionsOf(tab.dialect.value).get(name),
        moved: (at) => {
          cancelAnimationFrame(frame);
          frame = requestAnimationFrame(() => {
            cursor.value = at;
          });
        },
      });
      setEditor(made);
    };
    void loadModule().then((module) => {
      if (module === null) return;
      // A half-written character of an input method would be lost.
      if (composing) waiting = () => begin(module);
      else begin(module);
    });
    return () => {
      gone = true;
      field?.removeEventListener('compositionstart', began);
      field?.removeEventListener('compositionend', ended);
      if (made !== null) left.set(tab, made.save());
      made?.destroy();
    };
  }, [tab]);
}

/** The signature and the help of the function at the cursor. */
function FunctionLine({ tab, cursor }: { tab: Tab; cursor: Signal<number> }): JSX.Element | null {
  const functions = functionsOf(tab.dialect.value);
  if (functions.size === 0) return null;
  const name = callAround(tab.text.value, cursor.value);
  const help = name === null ? undefined : functions.get(name);
  return (
    <p class="function-line" title={help === undefined ? undefined : visible(cut(help.doc, 500))}>
      {help !== undefined && (
        <>
          <code>{visible(cut(help.signatures.slice(0, 3).join(' · '), 200))}</code>
          {help.returns !== '' && <span> → {visible(cut(help.returns, 40))}</span>} <span class="dim">{visible(cut(help.doc, 300))}</span>
        </>
      )}
    </p>
  );
}

function FaultLines({ fault, goTo }: { fault: Fault | null; goTo(line: number, column: number): void }): JSX.Element {
  const problem = fault !== null && 'problem' in fault ? fault.problem : null;
  const valid = fault !== null && 'valid' in fault ? fault.valid : null;
  const lines =
    problem !== null
      ? faultsOf(problem)
      : (valid?.warnings ?? []).map((warning) => {
          const { text, ...place } = readPlace(warning);
          return { message: text, hint: undefined, ...place };
        });
  return (
    <div id="fault" class={problem === null ? 'fault' : 'fault bad'}>
      {lines.slice(0, FAULTS_SHOWN).map(({ message, hint, line, column }, i) => (
        <div key={i}>
          <Icon name="warn" />
          <span>
            {visible(cut(message, 1000))}
            {hint !== undefined && <span class="dim"> {visible(cut(hint, 1000))}</span>}
          </span>
          {line !== undefined && (
            <button type="button" class="quiet" onClick={() => goTo(line, column ?? 1)}>
              Line {line}, column {column ?? 1}
            </button>
          )}
        </div>
      ))}
      {lines.length > FAULTS_SHOWN && <div class="dim">{lines.length - FAULTS_SHOWN} more.</div>}
      {valid !== null && lines.length === 0 && (
        <div>
          <Icon name="check" />
          <span class="valid" title={validText(valid)}>
            {validText(valid)}
          </span>
        </div>
      )}
    </div>
  );
}

function Parameters({ tab }: { tab: Tab }): JSX.Element | null {
  const count = parameterCount(tab.text.value);
  if (count === 0) return null;
  return (
    <fieldset class="parameters">
      <legend>Parameters</legend>
      {Array.from({ length: Math.min(count, PARAMETERS_MAX) }, (_, i) => (
        <label key={i}>
          <span>${i + 1}</span>
          <input
            type="text"
            value={tab.parameters.value[i] ?? ''}
            title="A number, true, false or null; anything else is text"
            onInput={(event) => {
              const values = Array.from({ length: count }, (_, j) => tab.parameters.value[j] ?? '');
              values[i] = event.currentTarget.value;
              tab.parameters.value = values;
            }}
          />
        </label>
      ))}
    </fieldset>
  );
}
