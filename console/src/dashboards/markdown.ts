/**
 * A small part of Markdown as a tree: headings, paragraphs, lists, bold, italic, code, links to http and https. Pure.
 *
 * Everything else is text, HTML too. Limits: `DEPTH_MAX` of nested bold, italic and links; 500 characters between two marks.
 */

export type Inline = { is: 'text'; text: string } | { is: 'code'; text: string } | { is: 'bold'; of: Inline[] } | { is: 'italic'; of: Inline[] } | { is: 'link'; to: string; of: Inline[] };
export type Block = { is: 'heading'; level: number; of: Inline[] } | { is: 'paragraph'; of: Inline[] } | { is: 'list'; ordered: boolean; items: Inline[][] } | { is: 'code'; text: string };

const DEPTH_MAX = 6;
const HEADING = /^(#{1,6})\s+(.*?)\s*#*$/;
const ITEM = /^\s{0,3}(?:[-*+]|(\d{1,9})[.)])\s+(.*)$/;

export function readMarkdown(markdown: string): Block[] {
  const blocks: Block[] = [];
  let lines: string[] = [];
  const paragraph = () => {
    if (lines.length > 0) blocks.push({ is: 'paragraph', of: readInline(lines.join('\n')) });
    lines = [];
  };
  let code: string[] | null = null;
  for (const line of markdown.replace(/\r\n?/g, '\n').split('\n')) {
    if (/^\s{0,3}```/.test(line)) {
      paragraph();
      if (code === null) code = [];
      else {
        blocks.push({ is: 'code', text: code.join('\n') });
        code = null;
      }
      continue;
    }
    if (code !== null) {
      code.push(line);
      continue;
    }
    const heading = HEADING.exec(line);
    const item = ITEM.exec(line);
    if (heading !== null) {
      paragraph();
      blocks.push({ is: 'heading', level: (heading[1] as string).length, of: readInline(heading[2] as string) });
    } else if (item !== null) {
      paragraph();
      addItem(blocks, item[1] !== undefined, readInline(item[2] as string));
    } else if (line.trim() === '') {
      paragraph();
      // A list ends with an empty line: the next item begins another one.
      blocks.push({ is: 'paragraph', of: [] });
    } else {
      lines.push(line.trim());
    }
  }
  paragraph();
  if (code !== null) blocks.push({ is: 'code', text: code.join('\n') });
  return blocks.filter((block) => block.is !== 'paragraph' || block.of.length > 0);
}

function addItem(blocks: Block[], ordered: boolean, item: Inline[]): void {
  const last = blocks[blocks.length - 1];
  if (last?.is === 'list' && last.ordered === ordered) last.items.push(item);
  else blocks.push({ is: 'list', ordered, items: [item] });
}

/** An address that a click may open: of the schemes http and https alone. */
export function webAddress(text: string): string | null {
  if (!/^https?:\/\//i.test(text) || text.length > 2000) return null;
  try {
    const url = new URL(text);
    return url.protocol === 'http:' || url.protocol === 'https:' ? url.href : null;
  } catch {
    return null;
  }
}

/** The lengths are limited, so that text with many opening marks takes no square of its length. */
const MARKED = /`([^`]{1,500})`|\*\*(?=\S)([^*]{0,500}[^*\s])\*\*|(\*|\b_)(?=[^\s*_])([^*_]{0,500}[^*_\s])\3|\[([^\]]{0,500})\]\(([^()\s]{0,2000})\)/;

export function readInline(text: string, depth = 0): Inline[] {
  const found: Inline[] = [];
  let rest = text;
  while (rest !== '') {
    const match = depth < DEPTH_MAX ? MARKED.exec(rest) : null;
    if (match === null) break;
    if (match.index > 0) found.push({ is: 'text', text: rest.slice(0, match.index) });
    const [all, code, bold, , italic, name, to] = match;
    const address = to === undefined ? null : webAddress(to);
    if (code !== undefined) found.push({ is: 'code', text: code });
    else if (bold !== undefined) found.push({ is: 'bold', of: readInline(bold, depth + 1) });
    else if (italic !== undefined) found.push({ is: 'italic', of: readInline(italic, depth + 1) });
    else if (address !== null) found.push({ is: 'link', to: address, of: readInline(name ?? '', DEPTH_MAX) });
    else found.push({ is: 'text', text: all });
    rest = rest.slice(match.index + all.length);
  }
  if (rest !== '') found.push({ is: 'text', text: rest });
  return found;
}
