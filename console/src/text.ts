/**
 * Text of events, made fit to be shown.
 *
 * Control characters, characters that change the direction of writing, invisible ones and lone surrogates are shown as
 * escapes, so that no event can hide a part of itself or reorder the page. Long text is cut. Markup needs nothing here: the
 * page never parses text as markup.
 */

const HIDDEN =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]|\udb40[\udc00-\udc7f]/g;

/** Any character that `visible` replaces, as a test without state. */
const ANY_HIDDEN = new RegExp(HIDDEN.source);

const SHORT: { [character: string]: string } = { '\n': '\\n', '\t': '\\t', '\r': '\\r', '\b': '\\b', '\f': '\\f' };

/** `text` with every hidden character as an escape: `\n`, `\u202e`. */
export function visible(text: string): string {
  if (!ANY_HIDDEN.test(text)) return text;
  return text.replace(HIDDEN, (found) => {
    const short = SHORT[found];
    if (short !== undefined) return short;
    let escape = '';
    for (let i = 0; i < found.length; i += 1) escape += `\\u${found.charCodeAt(i).toString(16).padStart(4, '0')}`;
    return escape;
  });
}

/** As `visible`, but lines stay lines. */
export function visibleLines(text: string): string {
  return text.split('\n').map(visible).join('\n');
}

/** At most `length` units of `text`, never half a pair of surrogates. */
export function cut(text: string, length: number): string {
  if (text.length <= length) return text;
  const last = text.charCodeAt(length - 1);
  const pairs = last >= 0xd800 && last <= 0xdbff;
  return text.slice(0, pairs ? length - 1 : length);
}

/** Whether a segment of a path is one that a browser takes out: `.` or `..`. */
export const isDots = (segment: string): boolean => segment === '.' || segment === '..';
