/**
 * The editor of a query: CodeMirror with the colours, faults, completions and help of BQL. A file of its own, loaded when it is needed.
 *
 * Knows nothing of tabs or of the server: the page passes in what it asks them for. The page's state is the text alone; marks are set
 * from outside. Limits: above `PLAIN_LENGTH` units the text has no colours and completions come on request only.
 */
import { autocompletion, acceptCompletion, closeBrackets, closeBracketsKeymap, type Completion, type CompletionContext, completionKeymap, type CompletionResult, pickedCompletion } from '@codemirror/autocomplete';
import { defaultKeymap, history, historyField, historyKeymap } from '@codemirror/commands';
import { bracketMatching } from '@codemirror/language';
import { type Diagnostic, nextDiagnostic, setDiagnostics } from '@codemirror/lint';
import { Compartment, EditorSelection, EditorState, type Extension, Prec, Transaction } from '@codemirror/state';
import { closeHoverTooltips, EditorView, highlightSpecialChars, hoverTooltip, keymap, placeholder, tooltips } from '@codemirror/view';
import { queryLanguage } from './bql_language.ts';
import { type FunctionHelp, KINDS, type Option, type Options, insertion, isOneWord, isPromising, matching } from './completion.ts';
import { cut, visible, visibleLines } from './text.ts';

export const PLAIN_LENGTH = 100_000;
const TYPING_MS = 120;
const OPTIONS_SHOWN = 100;

/** A fault or a likely mistake, in UTF-16 units. */
export interface Mark {
  from: number;
  to: number;
  severity: 'error' | 'warning';
  message: string;
  hint: string;
}

export interface Host {
  parent: HTMLElement;
  text: string;
  selection: [number, number];
  focused: boolean;
  /** The nonce for style sheets that the editor adds. */
  nonce: string;
  placeholder: string;
  /** What `save` returned for this text before, or null. */
  saved: unknown;
  changed(text: string): void;
  run(): void;
  /** Options at a place; null if there are none. */
  complete(text: string, cursor: number, signal: AbortSignal): Promise<Options | null>;
  /** The help for a function by its name in capitals, if it is known. */
  help(name: string): FunctionHelp | undefined;
  /** The cursor has moved. */
  moved(at: number): void;
}

export interface QueryEditor {
  setText(text: string): void;
  setMarks(marks: readonly Mark[], invalid: boolean): void;
  select(from: number, to: number): void;
  /** The undo history and the selection, for another editor of the same text. */
  save(): unknown;
  destroy(): void;
}

const element = (name: string, className: string, text = ''): HTMLElement => {
  const made = document.createElement(name);
  made.className = className;
  made.textContent = text;
  return made;
};

export function createEditor(host: Host): QueryEditor {
  const attributes = new Compartment();
  const colours = new Compartment();
  let coloured = host.text.length <= PLAIN_LENGTH;
  let own = host.text;
  const extensions: Extension[] = [
    EditorState.lineSeparator.of('\n'),
    EditorView.cspNonce.of(host.nonce),
    EditorView.lineWrapping,
    EditorView.clipboardInputFilter.of((text) => text.replace(/\r\n?/g, '\n')),
    EditorView.domEventHandlers({ beforeinput: replaceSelection }),
    EditorView.contentAttributes.of({ 'aria-label': 'Query', 'aria-describedby': 'fault', autocapitalize: 'off' }),
    attributes.of(invalidity(false)),
    colours.of(coloured ? queryLanguage : []),
    tooltips({ position: 'fixed' }),
    highlightSpecialChars(),
    history(),
    bracketMatching(),
    closeBrackets(),
    placeholder(host.placeholder),
    completion(host),
    hoverTooltip((view, at) => functionTooltip(host, view, at), { hideOnChange: true }),
    Prec.highest(
      keymap.of([
        { key: 'Mod-Enter', run: () => (host.run(), true) },
        { key: 'Tab', run: acceptCompletion },
        { key: 'Escape', run: (view) => (view.dispatch({ effects: closeHoverTooltips }), false) },
      ]),
    ),
    keymap.of([...closeBracketsKeymap, ...completionKeymap, ...historyKeymap, { key: 'F8', run: nextDiagnostic }, ...defaultKeymap]),
    EditorView.updateListener.of((update) => {
      if (update.docChanged) {
        own = update.state.doc.toString();
        if (coloured !== own.length <= PLAIN_LENGTH) {
          coloured = !coloured;
          queueMicrotask(() => view.dispatch({ effects: colours.reconfigure(coloured ? queryLanguage : []) }));
        }
        host.changed(own);
      }
      if (update.docChanged || update.selectionSet) host.moved(update.state.selection.main.head);
    }),
  ];
  const view = new EditorView({ parent: host.parent, state: firstState(host, extensions) });
  if (host.focused) view.focus();
  host.moved(view.state.selection.main.head);

  return {
    setText: (text) => {
      if (text === own) return;
      // Only what differs is replaced, so that the cursor and the marks stay where they can.
      const most = Math.min(own.length, text.length);
      let start = 0;
      while (start < most && own.charCodeAt(start) === text.charCodeAt(start)) start += 1;
      let end = 0;
      while (end < most - start && own.charCodeAt(own.length - 1 - end) === text.charCodeAt(text.length - 1 - end)) end += 1;
      view.dispatch({ changes: { from: start, to: own.length - end, insert: text.slice(start, text.length - end) }, annotations: Transaction.userEvent.of('input.page') });
    },
    setMarks: (marks, invalid) => {
      const { length } = view.state.doc;
      const found = marks.map((mark): Diagnostic => ({ ...clamp(mark, length), severity: mark.severity, message: mark.message, renderMessage: () => messageOf(mark) }));
      view.dispatch(setDiagnostics(view.state, found), { effects: attributes.reconfigure(invalidity(invalid)) });
    },
    select: (from, to) => {
      const { length } = view.state.doc;
      view.dispatch({ selection: EditorSelection.single(Math.min(from, length), Math.min(to, length)), scrollIntoView: true });
      view.focus();
    },
    save: () => view.state.toJSON({ history: historyField }),
    destroy: () => view.destroy(),
  };
}

function firstState(host: Host, extensions: Extension[]): EditorState {
  const saved = host.saved as { doc?: unknown } | null;
  if (saved !== null && saved.doc === host.text) {
    try {
      return EditorState.fromJSON(saved, { extensions }, { history: historyField });
    } catch {
      // Then the editor begins without a history.
    }
  }
  const [from, to] = host.selection.map((at) => Math.max(0, Math.min(at, host.text.length))) as [number, number];
  return EditorState.create({ doc: host.text, selection: EditorSelection.single(from, to), extensions });
}

/**
 * Typing over a selection, and deleting it other than by a key: a browser that does this itself gives what is left the colours of what
 * was there as inline style, which the page's policy forbids.
 */
function replaceSelection(event: InputEvent, view: EditorView): boolean {
  const deletes = event.inputType === 'deleteContentBackward' || event.inputType === 'deleteContentForward';
  const text = deletes ? '' : event.inputType === 'insertText' ? event.data : null;
  if (text === null || view.composing) return false;
  // Some ways to enter text name no range: then it is the selection. A deletion at the cursor alone is CodeMirror's.
  const selection = view.contentDOM.ownerDocument.getSelection();
  const selected = selection !== null && selection.rangeCount > 0 ? selection.getRangeAt(0) : undefined;
  const range = deletes ? selected : (event.getTargetRanges()[0] ?? selected);
  if (range === undefined || range.collapsed) return false;
  const from = view.posAtDOM(range.startContainer, range.startOffset);
  const to = view.posAtDOM(range.endContainer, range.endOffset);
  if (from >= to || view.state.selection.ranges.length > 1) return false;
  event.preventDefault();
  // The selection in the document may be newer than the editor's.
  view.dispatch({ selection: EditorSelection.single(from, to) });
  const insert = () => view.state.update(view.state.replaceSelection(text), { userEvent: deletes ? 'delete.selection' : 'input.type', scrollIntoView: true });
  if (deletes || !view.state.facet(EditorView.inputHandler).some((handler) => handler(view, from, to, text, insert))) view.dispatch(insert());
  return true;
}

const invalidity = (invalid: boolean): Extension => EditorView.contentAttributes.of({ 'aria-invalid': String(invalid) });

const clamp = ({ from, to }: Mark, length: number) => ({ from: Math.min(from, length), to: Math.min(to, length) });

function messageOf(mark: Mark): HTMLElement {
  const box = element('div', 'mark-message', visible(cut(mark.message, 600)));
  if (mark.hint !== '') box.append(element('div', 'dim', visible(cut(mark.hint, 600))));
  return box;
}

function completion(host: Host): Extension {
  return autocompletion({
    override: [(context) => optionsAt(host, context)],
    activateOnTypingDelay: TYPING_MS,
    maxRenderedOptions: OPTIONS_SHOWN,
    icons: false,
    positionInfo: besideOrBelow,
    addToOptions: [
      { position: 10, render: (shown) => element('span', `kind-letter kind-${shown.type ?? 'keyword'}`, KINDS[shown.type ?? '']?.[0] ?? '') },
    ],
  });
}

interface Box {
  left: number;
  right: number;
  top: number;
  bottom: number;
}

const INFO_PX = 300;

/** The help of an option is beside the list where there is room, and below or above it on a narrow screen: it never covers options. */
function besideOrBelow(_view: EditorView, list: Box, option: Box, info: Box, space: Box): { style: string } {
  const top = `top: ${Math.max(0, Math.round(option.top - list.top))}px`;
  if (space.right - list.right >= INFO_PX) return { style: `left: 100%; ${top}; width: max-content; max-width: ${INFO_PX + 80}px` };
  if (list.left - space.left >= INFO_PX) return { style: `right: 100%; ${top}; width: max-content; max-width: ${INFO_PX}px` };
  const below = space.bottom - list.bottom >= info.bottom - info.top || list.top - space.top < info.bottom - info.top;
  return { style: `left: 0; ${below ? 'top: 100%' : 'bottom: 100%'}; width: 100%` };
}

async function optionsAt(host: Host, context: CompletionContext): Promise<CompletionResult | null> {
  const { doc } = context.state;
  if (!context.explicit) {
    const line = doc.lineAt(context.pos);
    if (doc.length > PLAIN_LENGTH || !isPromising(doc.sliceString(Math.max(line.from, context.pos - 200), context.pos))) return null;
  }
  const abort = new AbortController();
  context.addEventListener('abort', () => abort.abort(), { onDocChange: true });
  const found = await host.complete(doc.toString(), context.pos, abort.signal);
  if (found === null || found.options.length === 0 || context.aborted) return null;
  const result = (from: number, to: number, at: CompletionContext): CompletionResult | null => {
    const typed = at.state.doc.sliceString(from, Math.min(at.pos, from + 1000));
    const fitting = matching(found.options, typed);
    // The server may know better, as of a misspelt word: its own choice for this very text is shown.
    const options = fitting.length === 0 && at === context ? found.options : fitting;
    if (options.length === 0) return null;
    return {
      from,
      to,
      filter: false,
      options: options.map(asCompletion),
      update: (_, newFrom, newTo, newContext) => {
        if (!found.whole || !isOneWord(newContext.state.doc.sliceString(newFrom, newContext.pos))) return null;
        return result(newFrom, newTo, newContext);
      },
    };
  };
  return result(found.from, found.to, context);
}

function asCompletion(option: Option): Completion {
  const { insert, doc } = option;
  const shown = visible(cut(option.label, 120));
  const detail = [option.type, option.detail].filter((part) => part !== '').join(' · ');
  const completion: Completion = {
    label: shown,
    type: option.kind,
    apply: (view, picked, from, to) => {
      const change = insertion(view.state.doc.toString(), from, to, insert);
      view.dispatch({
        changes: { from: change.from, to: change.to, insert: view.state.toText(change.insert) },
        selection: EditorSelection.cursor(change.cursor),
        scrollIntoView: true,
        annotations: [Transaction.userEvent.of('input.complete'), pickedCompletion.of(picked)],
      });
    },
  };
  if (detail !== '') completion.detail = visible(cut(detail, 120));
  if (doc !== '' || KINDS[option.kind] !== undefined) {
    completion.info = () => {
      const box = element('div', 'option-doc');
      box.append(element('div', 'dim', `${KINDS[option.kind]?.[1] ?? ''}${detail === '' ? '' : ` · ${visible(cut(detail, 200))}`}`));
      if (doc !== '') box.append(element('div', '', visibleLines(cut(doc, 1000))));
      return { dom: box };
    };
  }
  return completion;
}

function functionTooltip(host: Host, view: EditorView, at: number) {
  const line = view.state.doc.lineAt(at);
  const start = Math.max(line.from, at - 100);
  const text = view.state.doc.sliceString(start, Math.min(line.to, at + 100));
  for (const found of text.matchAll(/[\p{L}_][\p{L}\p{N}_]*/gu)) {
    const from = start + found.index;
    const to = from + found[0].length;
    if (at < from || at > to) continue;
    const help = /^\s*\(/.test(text.slice(to - start)) ? host.help(found[0].toUpperCase()) : undefined;
    if (help === undefined) return null;
    const dom = element('div', 'function-help');
    for (const signature of help.signatures) dom.append(element('code', '', visible(cut(`${signature}${help.returns === '' ? '' : ` → ${help.returns}`}`, 300))));
    dom.append(element('div', '', visibleLines(cut(help.doc, 1000))));
    return { pos: from, end: to, above: true, create: () => ({ dom }) };
  }
  return null;
}
