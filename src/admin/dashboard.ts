// GET /: the dashboard, plain files from dashboard/. In a checkout types are stripped from its TypeScript here; in the
// package it is already compiled. Files are read on the first request and then served from memory.

import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import type { Context } from 'hono';
import { inCheckout, programFile } from '../program-file.ts';

interface Asset {
  readonly body: Uint8Array<ArrayBuffer>;
  readonly headers: Readonly<Record<string, string>>;
}

/** The same place in a checkout and in the package. */
const STATIC = programFile('../dashboard/static/');
const SCRIPTS = programFile(inCheckout ? '../dashboard/' : './dashboard/');
/** Libraries by the names that the import map in index.html gives them. A package has them beside the scripts. */
export const LIBRARIES: Readonly<Record<string, () => URL>> = {
  'preact.js': () => new URL(import.meta.resolve('preact')),
  'preact-hooks.js': () => new URL(import.meta.resolve('preact/hooks')),
  'uplot.js': () => new URL('./uPlot.esm.js', import.meta.resolve('uplot')),
  'uplot.css': () => new URL('./uPlot.min.css', import.meta.resolve('uplot')),
};
const TYPES: Readonly<Record<string, string>> = {
  css: 'text/css; charset=utf-8',
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  svg: 'image/svg+xml',
  ts: 'text/javascript; charset=utf-8',
};
const IMPORT_MAP = /<script type="importmap">(.*?)<\/script>/s;

export interface DashboardFile {
  readonly path: string;
  readonly answer: (context: Context) => Response | Promise<Response>;
}

/** Answers to GET. Authentication is up to the caller. */
export function dashboardFiles(): DashboardFile[] {
  let page: Asset | undefined;
  let assets: ReadonlyMap<string, Asset> | undefined;
  return [
    { path: '/', answer: context => answer(context, (page ??= readPage())) },
    {
      path: '/dashboard/:name',
      answer: context => {
        assets ??= readAssets();
        const asset = assets.get(context.req.param('name') ?? '');
        return asset === undefined ? context.notFound() : answer(context, asset);
      },
    },
  ];
}

function answer(context: Context, { body, headers }: Asset): Response {
  const known = context.req.header('If-None-Match') === headers.ETag;
  return known ? context.body(null, 304, headers) : context.body(body, 200, headers);
}

function readPage(): Asset {
  const html = readFileSync(new URL('index.html', STATIC));
  const importMap = IMPORT_MAP.exec(html.toString())?.[1] ?? '';
  const page = assetOf('index.html', html);
  return { ...page, headers: { ...page.headers, 'Content-Security-Policy': contentPolicy(importMap) } };
}

/**
 * Allows our own files only. The import map is the one inline script, because browsers support no other way, and is
 * allowed by its hash. Trusted types: a string never becomes markup, whatever host name a client sends.
 */
function contentPolicy(importMap: string): string {
  const hash = createHash('sha256').update(importMap).digest('base64');
  return [
    "default-src 'none'",
    `script-src 'self' 'sha256-${hash}'`,
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; ');
}

function readAssets(): ReadonlyMap<string, Asset> {
  const assets = new Map<string, Asset>();
  const add = (name: string, body: Uint8Array) => assets.set(name, assetOf(name, body));
  for (const name of readdirSync(STATIC)) {
    if (name !== 'index.html') add(name, readFileSync(new URL(name, STATIC)));
  }
  if (!inCheckout) {
    for (const name of readdirSync(SCRIPTS)) add(name, readFileSync(new URL(name, SCRIPTS)));
    return assets;
  }
  for (const [name, url] of Object.entries(LIBRARIES)) add(name, readFileSync(url()));
  for (const name of readdirSync(SCRIPTS).filter(isScript)) {
    const text = readFileSync(new URL(name, SCRIPTS), 'utf8');
    add(name, Buffer.from(stripTypeScriptTypes(text)));
  }
  // The page loads it by its name in the package; the other files are loaded by the names in import statements.
  const main = assets.get('main.ts');
  if (main !== undefined) assets.set('main.js', main);
  return assets;
}

function isScript(name: string): boolean {
  return name.endsWith('.ts') && !name.endsWith('.test.ts');
}

function assetOf(name: string, body: Uint8Array): Asset {
  return {
    body: new Uint8Array(body),
    headers: {
      'Content-Type': TYPES[name.slice(name.lastIndexOf('.') + 1)] ?? 'application/octet-stream',
      // Revalidated each time, so that after an upgrade all files are of one version.
      'Cache-Control': 'no-cache',
      ETag: `"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`,
      'X-Content-Type-Options': 'nosniff',
      'Referrer-Policy': 'no-referrer',
    },
  };
}
